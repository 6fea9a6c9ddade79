"""Writes the fixtures beside this file: small models, rows, and what their libraries predict.

Made with xgboost 3.2.0, lightgbm 4.7.0 and scikit-learn 1.9.1.
"""

import json
import pathlib
import sys

import lightgbm
import numpy
import xgboost
from sklearn.linear_model import LogisticRegression

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
FOLDER = FOLDER if FOLDER.is_dir() else FOLDER.parent
ROWS = 12

random = numpy.random.default_rng(7)
features = random.normal(size=(400, 4)).round(2)
features[:, 3] = random.integers(0, 4, 400)
full = features.copy()
features[random.random(features.shape) < 0.08] = numpy.nan
signal = full[:, 0] + full[:, 1] * full[:, 2] + 0.3 * random.normal(size=400)
two = (signal > 0).astype(int)
three = numpy.digitize(full[:, 0] + full[:, 3], [0.5, 2.0])
value = 3 * full[:, 0] + full[:, 1] ** 2 + 10
counts = random.poisson(numpy.exp(0.5 * full[:, 0] + 0.3 * full[:, 3]))


def write(name, model, rows, values=None, probabilities=None, classes=None):
    if probabilities is not None:
        values = numpy.argmax(probabilities, axis=1)
    listed = [[None if numpy.isnan(x) else float(x) for x in row] for row in rows]
    fixture = {"init": {"model": model}, "rows": listed, "predict": [float(x) for x in values]}
    if probabilities is not None:
        fixture["predict_proba"] = [[float(x) for x in row] for row in probabilities]
    if classes is not None:
        fixture["predict_class"] = classes
    (FOLDER / f"{name}.json").write_text(json.dumps(fixture, separators=(",", ":")) + "\n")


def both(second):
    return numpy.column_stack([1 - second, second])


def xgb(name, target, trees=3, **parameters):
    parameters = {"max_depth": 3, "base_score": None, **parameters}
    parameters = {key: x for key, x in parameters.items() if x is not None}
    booster = xgboost.train(parameters, xgboost.DMatrix(features, target), trees)
    model = json.loads(bytes(booster.save_raw("json")))
    predicted = booster.predict(xgboost.DMatrix(features[:ROWS]))
    if parameters["objective"] == "binary:logistic":
        write(name, model, features[:ROWS], probabilities=both(predicted))
    elif parameters["objective"] == "multi:softprob":
        write(name, model, features[:ROWS], probabilities=predicted)
    else:
        write(name, model, features[:ROWS], predicted)


xgb("xgboost_binary", two, objective="binary:logistic")
xgb("xgboost_multiclass", three, objective="multi:softprob", num_class=3, trees=2, max_depth=2)
xgb("xgboost_regression", value, objective="reg:squarederror")
xgb("xgboost_poisson", counts, objective="count:poisson", max_depth=2)
xgb("xgboost_dart", value, objective="reg:squarederror", booster="dart", rate_drop=0.5, trees=4, max_depth=2)
xgb("xgboost_forest", two, objective="binary:logistic", num_parallel_tree=3, subsample=0.5, trees=1,
    base_score=0.3, max_depth=2)


def lgb(name, target, trees=3, data=features, **parameters):
    parameters = {"num_leaves": 5, "verbose": -1, **parameters}
    booster = lightgbm.train(parameters, lightgbm.Dataset(data, target), trees)
    predicted = booster.predict(data[:ROWS])
    kind = parameters["objective"]
    if kind == "binary":
        write(name, booster.dump_model(), data[:ROWS], probabilities=both(predicted))
    elif kind.startswith("multiclass"):
        write(name, booster.dump_model(), data[:ROWS], probabilities=predicted)
    else:
        write(name, booster.dump_model(), data[:ROWS], predicted)


lgb("lightgbm_binary", two, objective="binary", sigmoid=0.7)
lgb("lightgbm_multiclass", three, objective="multiclass", num_class=3, trees=2, num_leaves=3)
lgb("lightgbm_one_against_rest", three, objective="multiclassova", num_class=3, trees=2, num_leaves=3)
lgb("lightgbm_regression", value, objective="regression")
lgb("lightgbm_zero_as_missing", value, objective="regression", zero_as_missing=True)
lgb("lightgbm_none_missing", value, data=full, objective="regression", use_missing=False)
lgb("lightgbm_sqrt", value, objective="regression", reg_sqrt=True)
lgb("lightgbm_tweedie", counts, objective="tweedie")
lgb("lightgbm_forest", value, objective="regression", boosting="rf", bagging_freq=1, bagging_fraction=0.6)

# Rows that lie on thresholds, and just above.
wide = random.normal(size=(400, 4))
booster = lightgbm.train({"objective": "regression", "num_leaves": 5, "verbose": -1, "max_bin": 4000,
                          "min_data_in_bin": 1}, lightgbm.Dataset(wide, wide.sum(axis=1)), 3)
thresholds = sorted(set(booster.trees_to_dataframe()["threshold"].dropna()))
rows = numpy.array([[x] * 4 for x in thresholds])
rows = numpy.vstack([rows, numpy.nextafter(rows, numpy.inf)])
write("lightgbm_thresholds", booster.dump_model(), rows, booster.predict(rows))


def logistic(name, target, classes):
    names = numpy.array(classes)
    model = LogisticRegression().fit(full, names[target])
    exported = {
        "coefficients": model.coef_.tolist(),
        "intercept": model.intercept_.tolist(),
        "classes": [str(name) for name in model.classes_],
        "features": ["a", "b", "c", "d"],
    }
    write(name, exported, full[:ROWS], probabilities=model.predict_proba(full[:ROWS]),
          classes=[str(name) for name in model.predict(full[:ROWS])])


logistic("logistic_two", two, ["no", "yes"])
logistic("logistic_three", three, ["low", "middle", "high"])
