// How results of a search are ranked: pages on how to do a task first, those for people who change KernelLab last.
const FOR_CONTRIBUTORS = /^(CONTRIBUTING|CHANGELOG|docs\/(contributing|packages)\/)/;
const FOR_TASKS = /^docs\/howto\//;

var Scorer = {
  score: ([page, , , , score]) => score + (FOR_TASKS.test(page) ? 8 : FOR_CONTRIBUTORS.test(page) ? -40 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
