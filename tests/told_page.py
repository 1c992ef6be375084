"""A page that takes in what it is told of a topology, as static/changes.js does."""

import copy

import msgspec

RECORDS = ("hosts", "engines", "gpus", "collective")


class ToldPage:
    """`state` is what it shows; None: it has missed something, and asks for the whole."""

    def __init__(self):
        self.state = None
        self.wholes = 0
        self._number = 0

    def take(self, told):
        told = msgspec.json.decode(msgspec.json.encode(told))
        if told["base"] == 0:
            self._records, self.wholes = told["records"], self.wholes + 1
            self.state = self._patch({}, told["change"])
        elif self.state is None or told["base"] != self._number:
            self.state = None
            return
        else:
            self._grow_older(told["passed_s"])
            self._patch(self.state, told["change"])
        self._number = told["number"]

    def _patch(self, target, change):
        for name, value in change.items():
            if not isinstance(value, dict):
                target[name] = value
            elif "length" not in value:
                known = target.get(name) or copy.copy(self._records[name])
                target[name] = self._patch(known, value)
            else:
                target[name] = self._patch_list(target.get(name) or [], value, name)
        return target

    def _patch_list(self, known, change, name):
        known = list(known[: change["length"]])
        for place, fields in change.items():
            if place == "length":
                continue
            if int(place) == len(known):
                known.append(copy.copy(self._records[name]))
            known[int(place)] = self._patch(known[int(place)], fields)
        return known

    def _grow_older(self, passed_s):
        for host in self.state["hosts"]:
            host["sampled_s"] += passed_s if host["sampled_s"] else 0
            for gpu in host["gpus"]:
                gpu["xid_age_s"] += passed_s if gpu["xid"] else 0
            for engine in host["engines"]:
                engine["beat_age_s"] += passed_s if engine["beat_age_s"] else 0
                engine["busy_s"] += passed_s if engine["cell"] else 0
                inside = engine["collective"]
                if inside and inside["is_running"]:
                    inside["seconds"] += passed_s
