package jobcmd

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	topPlain   = 100 // columns without a terminal
	topMost    = 10  // partitions, classes
	topFew     = 5   // alarms, errors, marks
	topMapRows = 16
)

// phaseLetters are the letters of the map; reading is a dot.
var phaseLetters = map[string]byte{
	string(pipeline.Reading): '.', string(pipeline.Claiming): 'C', string(pipeline.Restoring): 'R', string(pipeline.Replaying): 'P',
	string(pipeline.Releasing): 'L', string(pipeline.Deferred): 'D', string(pipeline.Stopped): 'X', fleet.PhaseNobody: 'N', fleet.PhaseUnasked: '?',
}

// topText is a report in lines, the most important first. past are the samples a second
// of the last looks.
func topText(r *fleet.Report, past []float64, columns int) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	whole := func(indent int, format string, args ...any) {
		lines = append(lines, wrapped(fmt.Sprintf(format, args...), indent, columns)...)
	}
	whole(2, "%s  %s  %s: %s", r.Time.Local().Format("15:04:05"), level(r.Level), r.Job, r.Verdict)
	if r.First != "" {
		whole(7, "first: %s", r.First)
	}
	for _, f := range r.Findings {
		whole(12, "  %-9s %s", f.Level, f.Sentence)
	}
	add("")
	add("samples/s %s   predictions/s %s   behind %s, %d messages   %s", perSecond(r.Rates.Samples, r.Rates), perSecond(r.Rates.Predictions, r.Rates), behindText(r.Lag.Behind), r.Lag.Messages, curve(past))
	lines = append(lines, topMap(r, columns)...)
	lines = append(lines, topSlow(r)...)
	lines = append(lines, topWorkers(r)...)
	lines = append(lines, topClasses(r)...)
	m := r.Model
	add("")
	add("model %s (%.12s), %s; %d promotions, %d shadows", term.OneField(cmp.Or(m.Name, "-")), m.SHA256, jobReadout(&m), m.Promotions, len(m.Shadows))
	if al := r.Alarms; !al.Kept && !r.IsKnown(fleet.AboutAlarms) {
		add("alarms: not known, the server was asked and did not answer")
	} else if !al.Kept {
		add("alarms: no process judges alarm rules for this job")
	} else {
		add("alarms: %d on, %d not acknowledged", al.On, al.Open)
		for _, one := range al.List[:min(topFew, len(al.List))] {
			add("  %s  %s  %s  %s", one.Since.Local().Format("01-02 15:04:05"), one.Rule, term.OneField(one.Key), cmp.Or(one.Acknowledged, "not acknowledged"))
		}
	}
	for _, one := range r.Marks[:min(topFew, len(r.Marks))] {
		add("%s  %s  %s", one.Time.Local().Format("01-02 15:04:05"), one.Kind, one.Text)
	}
	for _, one := range unlike(r.Errors, topFew) {
		add("%s  %s  %s: %s", one.Time.Local().Format("01-02 15:04:05"), strings.ToLower(one.Level), one.From, one.Text)
	}
	return lines
}

// wrapped splits a text into lines of at most the given columns, with the later lines
// indented. The terminal cuts words that do not fit in a line.
func wrapped(text string, indent, columns int) (lines []string) {
	columns = max(columns, 2*indent)
	line, room := "", 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			line, room = word, columns-n
			continue
		case n+1 > room && strings.TrimSpace(line) != "":
			lines = append(lines, line)
			line, room = strings.Repeat(" ", indent)+word, columns-indent-n
			continue
		}
		line, room = line+" "+word, room-n-1
	}
	return append(lines, line)
}

// unlike returns the newest lines of the logs, at most `most`, and of lines that differ
// only in the partition only the newest, followed by the number of merged lines.
func unlike(all []fleet.LogMessage, most int) (few []fleet.LogMessage) {
	said := func(one *fleet.LogMessage) string {
		text, _, attributes := strings.Cut(one.Text, "=")
		if end := strings.LastIndexByte(text, ' '); attributes && end > 0 {
			text = text[:end] // without the name of the first attribute
		}
		return one.Level + " " + one.From + " " + text
	}
	at, more := map[string]int{}, map[string]int{}
	for i := range all {
		key := said(&all[i])
		if more[key]++; more[key] > 1 || len(few) == most {
			continue
		}
		at[key] = len(few)
		few = append(few, all[i])
	}
	for key, i := range at {
		if n := more[key] - 1; n > 0 {
			few[i].Text += fmt.Sprintf(" (and %d more like it)", n)
		}
	}
	return few
}

// perSecond formats a rate, if known.
func perSecond(v float64, of fleet.Rates) string {
	if of.Over == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", v)
}

// topMap returns the map of partitions, and the number of partitions in each phase.
func topMap(r *fleet.Report, columns int) (lines []string) {
	var phases []string
	for _, phase := range slices.Sorted(maps.Keys(r.Partitions.Phases)) {
		if n := r.Partitions.Phases[phase]; n > 0 {
			phases = append(phases, fmt.Sprintf("%d %s", n, phase))
		}
	}
	lines = append(lines, "partitions: "+strings.Join(phases, ", "))
	width := max(16, (columns-2)/16*16)
	for from := 0; from < len(r.Partitions.List) && len(lines) <= topMapRows; from += width {
		row := []byte("  ")
		for _, p := range r.Partitions.List[from:min(from+width, len(r.Partitions.List))] {
			letter := phaseLetters[p.Phase]
			if letter == 0 {
				letter = '?'
			}
			row = append(row, letter)
		}
		lines = append(lines, string(row))
	}
	if r.Partitions.LeftOut > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more that are read", r.Partitions.LeftOut))
	}
	return lines
}

// topSlow returns the partitions with the largest lag.
func topSlow(r *fleet.Report) []string {
	worst := slices.DeleteFunc(slices.Clone(r.Partitions.List), func(p fleet.Partition) bool {
		return p.Lag == 0 && p.Behind != nil && p.Phase == string(pipeline.Reading)
	})
	if len(worst) == 0 {
		return nil
	}
	slices.SortStableFunc(worst, func(a, b fleet.Partition) int {
		return cmp.Or(cmp.Compare(urgency(b.Behind), urgency(a.Behind)), cmp.Compare(b.Lag, a.Lag))
	})
	return topTable("SLOWEST\tPHASE\tBEHIND\tMESSAGES\tWORKER\tWHY", func(w *tabwriter.Writer) {
		for _, p := range worst[:min(topMost, len(worst))] {
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\n", p.Partition, p.Phase, behindText(p.Behind), p.Lag, cmp.Or(p.Worker, "-"), p.Why)
		}
	})
}

// topWorkers are the processes.
func topWorkers(r *fleet.Report) []string {
	return topTable("PROCESS\tHOST\tPID\tSTATE\tPARTITIONS\tLAG\tSAMPLES/S\tPREDICTIONS/S", func(w *tabwriter.Writer) {
		for i := range r.Processes {
			p := &r.Processes[i]
			fmt.Fprintf(w, "%s\t%s\t%d\t", p.Role, p.Host, p.PID)
			s := p.Stage
			if s == nil {
				fmt.Fprintln(w, "-\t-\t-\t-\t-")
				continue
			}
			state, n := "ready", 0
			if !s.Ready {
				state = "not ready"
			}
			for _, in := range s.Phases {
				n += in
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", state, n, s.Lag, perSecond(s.Rates.Samples, s.Rates), perSecond(s.Rates.Predictions, s.Rates))
		}
		for _, silent := range r.Silent {
			fmt.Fprintf(w, "stage\t?\t?\tdoes not answer: %s\t-\t-\t-\t-\n", silent)
		}
	})
}

// topClasses is the mix of classes since the workers began.
func topClasses(r *fleet.Report) []string {
	all, sum := map[string]uint64{}, uint64(0)
	for i := range r.Processes {
		if s := r.Processes[i].Stage; s != nil {
			for class, n := range s.Classes {
				all[class] += n
				sum += n
			}
		}
	}
	if sum == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return topTable("CLASS\tPREDICTIONS\tSHARE", func(w *tabwriter.Writer) {
		for _, class := range names[:min(topMost, len(names))] {
			fmt.Fprintf(w, "%s\t%d\t%.1f %%\n", term.OneField(class), all[class], 100*float64(all[class])/float64(sum))
		}
	})
}

// topTable returns the lines of a table, after an empty line.
func topTable(head string, fill func(*tabwriter.Writer)) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	fill(w)
	_ = w.Flush() // into memory
	return append([]string{""}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
}

// urgency orders lags: an unknown lag comes first.
func urgency(s *float64) float64 {
	if s == nil {
		return math.Inf(1)
	}
	return *s
}
