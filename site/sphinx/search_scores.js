/* How the search sorts what it finds; Sphinx reads this before its own script, which wants a var. A name of the package that
   is asked for in full comes first. A part of a name, or a word of the reference, stands behind the chapters that have the
   word too. Of two editions, PyTorch's comes first. */
"use strict";
var Scorer = {
  score: ([document, , anchor, , score]) => {
    if (!document.startsWith("reference/")) return score;
    return score - (anchor ? 0 : 6) - (document === "reference/mxnet" ? 1 : 0);
  },
  objNameMatch: 25,
  objPartialMatch: 2,
  objPrio: {},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
