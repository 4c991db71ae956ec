package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// formatVerdict returns the report in one sentence.
func (r *Report) formatVerdict() string {
	head := fmt.Sprintf("%s, %s", plural(r.Partitions.Count, "partition"), plural(len(r.workers()), "worker"))
	worst := r.Findings[:min(1, len(r.Findings))]
	switch {
	case len(worst) > 0 && worst[0].Level == Problem:
		return head + ": " + cutLine(worst[0].Sentence, longVerdict)
	case r.Lag.behindSeconds() > currentLag.Seconds():
		return fmt.Sprintf("%s, %s behind: %s", head, formatSeconds(r.Lag.behindSeconds()), r.answeredText())
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.About == lagUnknown }):
		return head + ", unknown delay: " + r.answeredText()
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.About == outbox }):
		return head + ", samples wait in a gateway: " + r.answeredText()
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.About == deadLetters }):
		return head + ": " + r.deadLetterText() + "; " + r.lastSampleText()
	case r.Partitions.Phases[string(pipeline.Reading)] < r.Partitions.Count:
		return fmt.Sprintf("%s, %d of them read: %s", head, r.Partitions.Phases[string(pipeline.Reading)], r.answeredText())
	}
	return head + ", up to date: " + r.answeredText()
}

// answeredText describes the time of the last sample and the number of dead letters.
func (r *Report) answeredText() string {
	if n := r.sumTotals().DeadLetters; n > 0 {
		return fmt.Sprintf("%s; %s could not be used", r.lastSampleText(), plural(int(n), "message"))
	}
	return r.lastSampleText()
}

// lastSampleText describes the time of the last sample.
func (r *Report) lastSampleText() string {
	switch {
	case r.Lag.Answered < 0 || r.Lag.Arrived < 0:
		return "no sample has arrived yet"
	case r.Lag.Arrived > silentInput.Seconds() && r.Lag.Messages == 0:
		return "no sample has arrived for " + formatSeconds(r.Lag.Arrived)
	}
	return "last sample answered " + formatSeconds(r.Lag.Answered) + " ago"
}

// deadLetterText describes the number of dead letters.
func (r *Report) deadLetterText() string {
	all := r.sumTotals() // Messages counts the usable messages
	return fmt.Sprintf("the job answers %d of %d messages, %d could not be used", all.Messages, all.Messages+all.DeadLetters, all.DeadLetters)
}

// sumTotals returns the sum of the workers' counts since their start.
func (r *Report) sumTotals() (all Totals) {
	for _, p := range r.workers() {
		t := p.Stage.Totals
		all.Messages, all.DeadLetters, all.Losses = all.Messages+t.Messages, all.DeadLetters+t.DeadLetters, all.Losses+t.Losses
	}
	return all
}

// placeOf names a process for people.
func placeOf(p *Process) string { return fmt.Sprintf("on %s (process %d)", cmp.Or(p.Host, "?"), p.PID) }

// plural returns a number with its noun: an s, or es, unless the number is 1.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "ch") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func pluralVerb(n int64, singular, many string) string {
	if n == 1 {
		return singular
	}
	return many
}

// listNames returns the first names of a list.
func listNames(all []string) string {
	if more := len(all) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNamed], ", "), more)
	}
	return strings.Join(all, ", ")
}

func partitionNumbers(all []*Partition) string {
	var list []string
	for _, p := range all {
		list = append(list, fmt.Sprint(p.Partition))
	}
	return listNames(list)
}

// formatSeconds formats an elapsed time for people.
func formatSeconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return fmt.Sprintf("%.0f days", s/86400)
}

// formatBytes formats a number of bytes for people.
func formatBytes(b float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if b < 1000 {
			return fmt.Sprintf("%.3g %s", b, unit)
		}
		b /= 1000
	}
	return fmt.Sprintf("%.3g TB", b)
}
