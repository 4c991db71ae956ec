// Package alarm makes alarms of a job's predictions: rules, and the fold that applies
// them. It knows no server, no clock and no goroutine: the same rules and the same
// predictions give the same alarms, always. Package watch keeps the alarms of a job.
//
// # Rules
//
// A rule has a name and a text. The text is a condition and, behind commas, clauses:
//
//	class imbalance|rub >= 0.8, 3 of 5, clear below 0.5, clear after 10, hold 10m
//	drift probability, by "^([^.]+)", between 100000
//	flag flat|out-of-range, hold 1m, quiet 22:00-06:00|12:00-12:30
//	novel 0.001, 3 of 5
//	value > 80, clear below 75
//	silent 10m, streams plant.A.>
//	class "bearing fault", final, by "^(plant[.][^.]+)"
//
// Conditions:
//
//	class C|D >= P   a prediction is on when its class is one of these and its probability
//	                 is P or more; without >= P, for the class alone. It is off when its
//	                 class is another one, or its probability is less than P
//	flag F|G         a prediction is on when it has one of these flags (outcome.Flag), and off
//	                 when it has none
//	novel P          a prediction is on when its p-value of novelty is P or less, and off when
//	                 it is more; it is neither where the readout says nothing of novelty
//	value > X        a prediction is on when its number is more than X, and off when it is not;
//	                 also >=, < and <=. low and high are the ends of the number's interval. It
//	                 is neither where the model predicts classes
//	drift S          the series S of the predictions' probability, score, novelty, interval
//	                 (time between their last samples), class C (1 for this class, 0 for
//	                 others) or inputs (level, spread and pace of each channel: inputs level
//	                 for these alone) is no longer what it was (package drift). It is found once; the alarm is
//	                 cleared after as many predictions as it takes to learn what is now
//	silent T         no prediction has been stored for so long
//
// Clauses:
//
//	K of N           the alarm is raised when K of the last N predictions are on (N <= 64);
//	                 without it, by one
//	between N        of drift: predictions of a key between two false alarms, in the mean;
//	                 1000000 without it
//	shift D          of drift: the change to find soonest, in deviations of the series; .5
//	clear below Q    the alarm that is on: of its classes, only predictions with a
//	                 probability less than Q are off (hysteresis)
//	clear below X    of value, low, high: while the alarm is on, only numbers below X are off;
//	                 of < and <=, clear above X
//	clear after M    the alarm is cleared after M predictions that are off, one after the
//	                 other; without it, after N
//	hold T           the alarm is on for so long at least. It is cleared by the first
//	                 prediction after that which finds the condition for clearing
//	quiet A-B|C-D    no alarm is raised in these times of the day (UTC). It is raised by the
//	                 first prediction behind them, if K of N still holds
//	streams S        only for this stream, or for those whose names fit: * is one token, > at
//	                 the end all that follow
//	by "REGEXP"      streams of which the expression (RE2) finds the same are one: what its
//	                 groups find, joined by dots, or all that it finds. Streams in which it
//	                 finds nothing have no alarm. Without it, each stream is one
//	final            predictions with the flag early do not count
//	only CONDITION   predictions for which this condition (not drift, not silent) is not on do
//	                 not count: class worn >= 0.8, only flag decided
//
// A word that holds blanks, commas, | or >= stands in double quotes, with Go's escapes.
//
// All times are those at which the server stored something: never those of samples.
//
// # The fold
//
// For each rule and key, the fold counts predictions in the order of the job's output.
// What it returns are events, numbered from 1: raised, acknowledged, cleared, rules.
// raised and cleared follow from predictions. Three kinds of events do not: other rules,
// an acknowledgement, and raised for a silence, which a clock has decided. They have a
// position in the output, like all events. When they are stored at that position they are
// facts: a replay takes them from the log (Fold.Apply) and comes to the same.
//
// Each partition's predictions are numbered (Eusn-Outs). So the fold leaves out what it
// has judged, and finds that some are missing.
//
// # Files
//
//   - rule.go: parses rules
//   - text.go: splits the text of a rule into words
//   - condition.go: judges classes, flags and novelty, with hysteresis (clear below)
//   - level.go: judges numbers against a bound, with hysteresis (clear below, clear above)
//   - series.go: judges drift
//   - never.go: lists rules that no prediction of a model can meet
//   - fold.go: counts on and off predictions (n of m, clear after, hold); raises and clears alarms
//   - facts.go: applies acknowledgements, new rules and silence
//   - event.go: encodes the events of the alarm log
//   - latest.go: keeps the latest prediction and the alarms of each stream
//   - state.go: encodes the state of a fold
package alarm
