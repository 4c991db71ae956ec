// Package drift tells when a series of values is no longer what it was: its level or
// its spread has changed. All values since the last change are the reference of the next
// one; nothing is assumed about their distribution.
//
// # The test
//
// Value n gets its rank among the values so far, n included: with those equal or in the
// same bin in random order, p = (values below + u * values alike) / n, with u uniform in
// 0..1. As long as all values are independent and of one distribution, whatever it is,
// the p are independent and uniform: that is exact (Vovk, Gammerman and Shafer,
// "Algorithmic Learning in a Random World", 2005, section 2.3; McDonald, "A CUSUM
// procedure based on sequential ranks", 1990). z is the standard normal value of p
// (Conover, Tercero-Gomez and Cordero-Franco, "The sequential normal scores
// transformation", 2017), between -Deviations and +Deviations. Four cumulative sums
// (Page 1954) watch it:
//
//	up      S = max(0, S + z - k)    the level has risen
//	down    S = max(0, S - z - k)    it has fallen
//
// and the same two of the ranks of |value - median|: wider, narrower. There is drift
// when one of them comes to h; then the detector begins anew, so that each change is
// found once. k is half of the shift that should be found soonest,
// h follows from the number of values between two false alarms (Plan).
//
// # Bins
//
// The first Learning values are kept, and judged by nothing. Then they become Bins bins
// with about equally many in each, and from then on a value only counts in its bin.
// So a detector has a constant size. The p stay exact, because bins that the first
// values have made are as good as any.
//
// All sums are integers, in units of 1/Unit deviation: the same values and the same u
// give the same answers on every machine.
//
// # Values that are alike
//
// Values of one machine in short succession are often alike, and sums of such values vary
// more than those of independent ones: charts with the thresholds above would speak
// without a reason. So a detector measures how much they are alike, in three steps.
//
// Where the first Learning values are (the z of neighbours correlate by more than .2),
// it takes the means of two values instead, and learns from Learning of these; and so on,
// up to MostWidth values (batch means: Law and Carson, "A sequential procedure for
// determining the length of a steady-state simulation", Operations Research 27, 1979).
//
// What is left shows in the sums of 2, 4, ..., 1024 successive z: their variance is that of
// independent values times a factor. Where a factor is surely above 1, by two of its
// standard errors sqrt(2/n), n being the number of sums, it is taken as two of them larger: too
// small a factor costs false alarms, too large a one time. The largest factor of those scales
// that have at least 32 sums multiplies h: the sums then cross it as rarely as if values were
// independent and the factor as many. Only values up to the last at which the chart's two sums
// were below h/4 are counted, so that a change does not hide itself.
//
// Nothing is judged before there are Waiting values, once for each series; nor before there
// are Learning since the last change; both times the factor, where it is surely above 1, by
// four standard errors: a reference of values that are alike is worth as many fewer. Nor is
// anything judged while the factor still grows with the scale, by more than half from a
// quarter of it.
//
// # Restless times
//
// Where times of large values and times of small ones take turns, the z of the level are
// large together as well, and its sums come far without a reason. Such series show in the
// spread, whose values are then alike. Where they surely are, by as much, each z of the
// level is divided by the deviation of the last few, if that is above 1. Its square is half
// of the mean of about the last 16 squares of steps from one z to the next (von Neumann,
// "Distribution of the ratio of the mean square successive difference to the variance",
// 1941): a change of level is one large step in it. Independent values are not divided.
//
// # What it cannot do
//
// A series whose level wanders without end has no level to depart from, and one whose spread
// jumps to and fro and stays for hundreds of values has changed each time.
// docs/measurements/drift.md has figures of both. A change that comes before Learning values
// have been seen is part of the reference. One that comes soon after is found later than one
// that comes late, since its own values count in the ranks of the next ones. A change that
// comes while a detector waits is found when it judges, or not at all.
//
// # Files
//
//   - detector.go: detects changes of level and spread in a series
//   - alike.go: measures how much successive values depend on each other
package drift
