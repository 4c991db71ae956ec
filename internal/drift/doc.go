// Package drift detects changes of the level or the spread of a series of values. All values since
// the last change are the reference for the next change; the test assumes no distribution.
//
// # The test
//
// Value n gets its rank among the first n values: with values that are equal or in the same bin in
// random order, p = (values below + u * values alike) / n, with u uniform in 0..1. If all values
// are independent with one distribution, whatever it is, the p are exactly independent and uniform
// (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005, section 2.3;
// McDonald, "A CUSUM procedure based on sequential ranks", 1990). z is the standard normal value of
// p (Conover, Tercero-Gomez and Cordero-Franco, "The sequential normal scores transformation",
// 2017), between -Deviations and +Deviations. Four cumulative sums (Page 1954) test z:
//
//	up      S = max(0, S + z - k)    the level has risen
//	down    S = max(0, S - z - k)    the level has fallen
//
// and the same two with the ranks of |value - median|: wider, narrower. A change is detected when a
// sum reaches h; the detector then restarts, so that each change is detected once. k is half of the
// shift to detect fastest, h follows from the number of values between two false alarms (Plan).
//
// # Bins
//
// The first Learning values are stored and not judged. They then define Bins bins with about the
// same number of values in each; later values only count in their bin. A detector thus has a
// constant size. The p stay exact, because any bins from the first values are valid.
//
// All sums are integers, in units of 1/Unit deviation: the same values and the same u give the same
// results on every machine.
//
// # Dependent values
//
// Successive values of a machine often depend on each other, and sums of such values vary more than
// sums of independent values: charts with the thresholds above would raise false alarms. A detector
// therefore measures the dependence, in three steps.
//
// If the z of neighbors among the first Learning values correlate by more than .2, the detector
// averages two values into one, and learns from Learning averages; this repeats, up to MostWidth
// values (batch means: Law and Carson, "A sequential procedure for determining the length of a
// steady-state simulation", Operations Research 27, 1979).
//
// The sums of 2, 4, ..., 1024 successive z show the remaining dependence: their variance is the
// variance for independent values times a factor. If a factor is above 1 by more than two of its
// standard errors sqrt(2/n), n being the number of sums, two standard errors are added: too small a
// factor causes false alarms, too large a factor costs time. The largest factor of the scales with
// at least 32 sums multiplies h: the sums then cross h as rarely as if the values were independent
// and fewer by this factor. Only values up to the last value with both of the chart's sums below
// h/4 are counted, so that a change does not hide itself.
//
// No value is judged before there are Waiting values, once per series, and Learning values since
// the last change; both numbers are multiplied by the factor if it is above 1 by four standard
// errors: a reference of dependent values has less information by this factor. No value is judged
// while the factor still grows with the scale, by more than half compared with a quarter of the
// scale.
//
// # Restless times
//
// If times of large values and times of small values alternate, the z of the level are also large
// together, and its sums grow without a change. Such series show dependence in the spread. If this
// dependence is certain, by the same criterion, each z of the level is divided by the deviation of
// the last values, if the deviation is above 1. Its square is half of the mean of about the last 16
// squared differences of successive z (von Neumann, "Distribution of the ratio of the mean square
// successive difference to the variance", 1941): a change of level is one large difference.
// Independent values are not divided.
//
// # Limitations
//
// A series whose level wanders without end has no reference level, and a series whose spread
// alternates and stays for hundreds of values has changed each time. docs/results.md has
// figures for both. A change during the first Learning values becomes part of the reference. An
// early change is detected later than a late change, because its own values count in the next
// ranks. A change during the waiting time is detected at the first verdict, or not at all.
//
// # Files
//
//   - detector.go: detects changes of level and spread in a series
//   - alike.go: measures how much successive values depend on each other
package drift
