// How results of a search are ranked: pages for people who change KernelLab come after those for its users.
const FOR_CONTRIBUTORS = /^(CONTRIBUTING|CHANGELOG|docs\/(contributing|packages)\/)/;

var Scorer = {
  score: ([page, , , , score]) => (FOR_CONTRIBUTORS.test(page) ? score - 40 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
