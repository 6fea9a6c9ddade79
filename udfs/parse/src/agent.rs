//! User agents: what the header of that name says about a browser, by a few rules.

use wasmill_guest::{ArrowType, udf};

/// What a user agent is.
#[derive(ArrowType, Debug, PartialEq)]
pub struct UserAgent {
    /// The browser or tool, such as `Firefox` or `curl`; for a bot the name that it gives itself. Null
    /// where none is known.
    pub browser: Option<String>,
    /// Its version, as it is written; null where there is none.
    pub version: Option<String>,
    /// `Windows`, `macOS`, `iOS`, `Android`, `ChromeOS` or `Linux`; null where none is known.
    pub os: Option<String>,
    /// `bot`, `phone`, `tablet` or `computer`; null where it is unknown.
    pub device: Option<String>,
}

/// The product names that tell browsers, with the browser. Many browsers name others as well, so that
/// the first of this list counts.
const BROWSERS: [(&str, &str); 22] = [
    ("Edg", "Edge"),
    ("EdgA", "Edge"),
    ("EdgiOS", "Edge"),
    ("Edge", "Edge"),
    ("OPR", "Opera"),
    ("OPT", "Opera"),
    ("Opera", "Opera"),
    ("Vivaldi", "Vivaldi"),
    ("YaBrowser", "Yandex Browser"),
    ("SamsungBrowser", "Samsung Internet"),
    ("FxiOS", "Firefox"),
    ("Firefox", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chromium", "Chromium"),
    ("HeadlessChrome", "Chrome"),
    ("Chrome", "Chrome"),
    ("curl", "curl"),
    ("Wget", "Wget"),
    ("python-requests", "Python Requests"),
    ("Go-http-client", "Go"),
    ("okhttp", "OkHttp"),
    ("PostmanRuntime", "Postman"),
];

/// Words in the names of bots, in lower case.
const BOTS: [&str; 4] = ["bot", "crawler", "spider", "slurp"];

/// The words that tell systems, with the system. The first of this list counts.
const SYSTEMS: [(&str, &str); 10] = [
    ("Windows", "Windows"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("iPod", "iOS"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
    ("X11", "Linux"),
];

/// Browser, system and device of an HTTP user agent, by a few rules: the first known product counts, a
/// name with `bot`, `crawler`, `spider` or `slurp` is a bot, and an Android device that is not `Mobile`
/// is a tablet. Browsers may send what they like, so this is for statistics, not for decisions.
#[udf]
pub fn parse_user_agent(text: &str) -> UserAgent {
    let bot = products(text).find(|(name, _)| is_bot(name));
    let found = bot.or_else(|| browser(text));
    let system = SYSTEMS.iter().find(|(word, _)| text.contains(word));
    let system = system.map(|(_, system)| *system);
    let device = if bot.is_some() {
        Some("bot")
    } else {
        device(text, system)
    };
    UserAgent {
        browser: found.map(|(name, _)| name.to_owned()),
        version: found
            .map(|(_, version)| version.to_owned())
            .filter(|version| !version.is_empty()),
        os: system.map(str::to_owned),
        device: device.map(str::to_owned),
    }
}

fn is_bot(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    BOTS.iter().any(|word| name.contains(word))
}

/// The name of the browser and its version.
fn browser(text: &str) -> Option<(&str, &str)> {
    let version_of = |wanted: &str| {
        let mut found = products(text).filter(|(name, _)| *name == wanted);
        found.next().map(|(_, version)| version)
    };
    for (product, browser) in BROWSERS {
        if let Some(version) = version_of(product) {
            return Some((browser, version));
        }
    }
    if let Some((_, after)) = text.split_once("MSIE ") {
        return Some(("Internet Explorer", number(after)));
    }
    if text.contains("Trident/") {
        let version = text
            .split_once("rv:")
            .map_or("", |(_, after)| number(after));
        return Some(("Internet Explorer", version));
    }
    version_of("Safari").map(|_| ("Safari", version_of("Version").unwrap_or("")))
}

fn device(text: &str, system: Option<&str>) -> Option<&'static str> {
    let mobile = text.contains("Mobi");
    Some(match system? {
        _ if text.contains("iPad") || text.contains("Tablet") => "tablet",
        "Android" if !mobile => "tablet",
        "iOS" | "Android" => "phone",
        _ if mobile => "phone",
        _ => "computer",
    })
}

/// The products of a user agent with their versions, empty without: `Name/1.2`, also in remarks.
fn products(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let separates = |character: char| matches!(character, ' ' | ';' | '(' | ')' | ',');
    let words = text.split(separates).filter(|word| !word.is_empty());
    words.map(|word| word.split_once('/').unwrap_or((word, "")))
}

/// The digits and points at the start of a text.
fn number(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> [String; 4] {
        let agent = parse_user_agent(text);
        [agent.browser, agent.version, agent.os, agent.device].map(Option::unwrap_or_default)
    }

    #[test]
    fn usual_user_agents_are_known() {
        for (text, wanted) in [
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 Edg/124.0.2478.51",
                ["Edge", "124.0.2478.51", "Windows", "computer"],
            ),
            (
                "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
                ["Firefox", "125.0", "Linux", "computer"],
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1",
                ["Safari", "17.4", "iOS", "phone"],
            ),
            (
                "Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/120.0.6099.119 Mobile/15E148 Safari/604.1",
                ["Chrome", "120.0.6099.119", "iOS", "tablet"],
            ),
            (
                "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/123.0.0.0 Mobile Safari/537.36",
                ["Chrome", "123.0.0.0", "Android", "phone"],
            ),
            (
                "Mozilla/5.0 (Linux; Android 13; SM-X700) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/23.0 Chrome/115.0.0.0 Safari/537.36",
                ["Samsung Internet", "23.0", "Android", "tablet"],
            ),
            (
                "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
                ["Internet Explorer", "11.0", "Windows", "computer"],
            ),
            (
                "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
                ["Googlebot", "2.1", "", "bot"],
            ),
            ("curl/8.5.0", ["curl", "8.5.0", "", ""]),
            ("", ["", "", "", ""]),
            ("bot", ["bot", "", "", "bot"]),
            ("MSIE é/(;rv:", ["Internet Explorer", "", "", ""]),
        ] {
            assert_eq!(parts(text), wanted, "{text}");
        }
    }
}
