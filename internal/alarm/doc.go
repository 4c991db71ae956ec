// Package alarm derives alarms from a job's predictions: it has rules, and the fold that applies
// the rules. The package uses no server, no clock and no goroutine: the same rules and the same
// predictions always give the same alarms. Package watch keeps the alarms of a job.
//
// # Rules
//
// A rule has a name and a text. The text is a condition followed by clauses, separated by commas:
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
//	class C|D >= P   a prediction is on if its class is C or D and its probability is at
//	                 least P; without >= P, the class decides. It is off if it has another
//	                 class, or a probability less than P
//	flag F|G         a prediction is on if it has one of these flags (outcome.Flag),
//	                 otherwise off
//	novel P          a prediction is on if its novelty p-value is at most P, otherwise off;
//	                 neither if the readout does not compute novelty
//	value > X        a prediction is on if its number is more than X, otherwise off; also >=,
//	                 < and <=. low and high are the ends of the number's interval. Neither if
//	                 the model predicts classes
//	input 2 level > X
//	                 a statistic of channel 2 (level, spread or pace, as read by a detector with
//	                 Inputs) is more than X deviations from its training mean, otherwise off; also
//	                 >=, < and <=. Neither if the readout reads no inputs or fewer channels
//	drift S          a change was detected in the series S (package drift): the predictions'
//	                 probability, score, novelty, interval (time between their last
//	                 samples), class C (1 for this class, 0 for other classes) or inputs
//	                 (level, spread and pace of each channel; inputs level: only the levels).
//	                 Each change is detected once; the alarm is cleared after as many
//	                 predictions as the detector needs for a new reference
//	silent T         no prediction has been stored for the time T
//
// Clauses:
//
//	K of N           the alarm is raised when K of the last N predictions are on (N <= 64);
//	                 default: 1 of 1
//	between N        drift: mean number of predictions of a key between two false alarms;
//	                 default 1000000
//	shift D          drift: the change to detect fastest, in standard deviations of the
//	                 series; default .5
//	clear below Q    class: while the alarm is active, only predictions of its classes with a
//	                 probability less than Q are off (hysteresis)
//	clear below X    value, low, high: while the alarm is active, only numbers below X are
//	                 off; for < and <=, clear above X
//	clear after M    the alarm is cleared after M consecutive predictions that are off;
//	                 default N; for novel 12 if N is smaller, because p-values of a fault flicker
//	hold T           minimum time that the alarm is active. The first later prediction that
//	                 meets the condition for clearing clears the alarm. A server whose clock is
//	                 set back by T or more ends the time
//	quiet A-B|C-D    no alarm is raised in these times of the day (UTC). The first later
//	                 prediction raises the alarm if K of N still holds
//	streams S        only this stream, or streams that match: * is one token, > at the end
//	                 all following tokens
//	by "REGEXP"      streams with the same match of the expression (RE2) share an alarm: the
//	                 groups joined by dots, or the whole match. Streams without a match have
//	                 no alarm. Default: one alarm for each stream
//	final            predictions with the flag early do not count
//	accept T         novel: an alarm that has been active for the time T, but at least for hold,
//	                 is cleared, and the largest novelty of this time is accepted: predictions
//	                 up to this novelty are off. The level is forgotten after the time T without
//	                 a prediction that meets the condition; when the rules change; and when
//	                 counting restarts. Default: never, because an accepted fault is missed
//	worse F          novel: while the alarm is active, a prediction that is on, with a novelty of at
//	                 least F times that of the last raised event, raises a new alarm, except in
//	                 quiet times: a weak lasting change hides no fault. Default: 3
//	only CONDITION   only predictions that are on for this condition (not drift, not silent)
//	                 count: class worn >= 0.8, only flag decided
//	unless CONDITION predictions that are on for this condition do not count: unless class off
//
// A word with blanks, commas, | or >= is written in double quotes, with Go's escapes.
//
// All times are storage times of the server, never times of samples.
//
// # The fold
//
// For each rule and key, the fold counts predictions in the order of the job's output. It returns
// events, numbered from 1: raised, acknowledged, cleared, rules. raised of an active alarm (worse)
// replaces it: acknowledgement and the times of hold and accept restart. raised and cleared follow
// from predictions. Three kinds of events, called facts, do not: new rules, an acknowledgement, and
// raised for a silence, which depends on a clock. Like all events, facts have a position in the
// output. A replay applies the facts of the log at their positions (Fold.ApplyFact) and reaches the
// same state.
//
// Each partition's predictions are numbered (Eusn-Outs). With these numbers, the fold skips judged
// predictions and detects missing predictions.
//
// # Files
//
//   - rule.go: parses rules
//   - file.go: reads rules from a YAML file
//   - text.go: splits the text of a rule into words
//   - condition.go: judges classes, flags and novelty, with hysteresis (clear below)
//   - level.go: judges numbers against a bound, with hysteresis (clear below, clear above)
//   - series.go: judges drift
//   - accept.go: accepts a level of novelty that stays; detects a worse novelty
//   - never.go: lists rules that no prediction of a model can meet
//   - fold.go: counts on and off predictions (n of m, clear after, hold); raises and clears alarms
//   - facts.go: applies acknowledgements, new rules and silence
//   - channels.go: computes the share of each channel in a deviation from the training data
//   - event.go: encodes the events of the alarm log
//   - rehearse.go: judges recorded predictions; counts true, false and missed alarms
//   - latest.go: keeps the latest prediction and the alarms of each stream
//   - state.go: encodes the state of a fold
package alarm
