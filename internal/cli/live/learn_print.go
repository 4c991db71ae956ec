package live

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline/learn"
)

// learnt is what --json prints.
type learnt struct {
	learn.Report
	Sequences int                    `json:"features_stored"` // sequences whose features the store has
	Model     *models.Report         `json:"model,omitempty"` // none: nothing was learnt
	Fit       *offline.RetrainReport `json:"report,omitempty"`
	Sites     []siteResult           `json:"left_out,omitempty"`
}

// mostRows bounds a table for people.
const mostRows = 20

// print says what became of the labels, and what was learnt; nil: nothing.
func (l *learning) print(_ context.Context, j learn.Joined, fit *offline.RetrainReport, sites []siteResult) error {
	var m *models.Report
	if fit != nil {
		r, err := models.Inspect(l.opt.out)
		if err != nil {
			return err
		}
		m = &r
	}
	if l.app.JSON {
		return l.app.PrintJSON(learnt{j.Report, l.store.Len(), m, fit, sites})
	}
	l.printLabels(j.Report)
	if fit == nil {
		return nil
	}
	l.app.Print("readout    %s", fit.Readout.String())
	for _, s := range sites {
		l.app.Print("left out   %s: %s", oneField(s.Site), s)
	}
	l.app.Print("model      %s, sha256 %s", l.opt.out, m.SHA256)
	if len(fit.Divided) > 0 {
		l.app.Say("warning: all labelled sequences of %s follow one another: leave-one-out can leave out only parts of them, so its accuracy is too optimistic", models.ListText(fit.Divided))
	}
	return nil
}

func (l *learning) printLabels(r learn.Report) {
	a := l.app
	a.Print("labels     %d read, %d count: %d used, %d pending, %d disputed, %d overruled, %d left out; %d were replaced, %d messages are no label",
		r.Read, r.Current, r.Used, r.Pending, r.Disputed, r.Overruled, r.Left, r.Replaced, r.Malformed)
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		a.Print("pending    %d: %s", r.Reasons[reason], reason)
	}
	for _, p := range first(r.PendingList) {
		a.Print("           %s  %s  %s  %s", oneField(p.Stream), p.Where, oneField(p.Class), oneField(p.Who))
	}
	for _, d := range first(r.DisputeList) {
		a.Print("disputed   %s  seq %d row %d  %s", oneField(d.Stream), d.Seq, d.Row, models.ListText(d.Says))
	}
	for _, m := range first(r.MalformedList) {
		a.Print("no label   message %d: %s", m.Number, m.Error)
	}
	a.Print("sequences  %d learnt from, %d disputed, %d left out, %d flagged", r.Sequences, r.Disputes, r.LeftOut, r.Flagged)
	l.printCounts("class", r.Classes)
	l.printCounts("stream", r.Streams)
}

// first bounds a list for people; --json has more of it.
func first[T any](list []T) []T { return list[:min(5, len(list))] }

// printCounts prints the largest counts of a table.
func (l *learning) printCounts(what string, counts map[string]int) {
	names := slices.Collect(maps.Keys(counts))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	for i, name := range names {
		if i == mostRows {
			l.app.Print("%-10s and %d more", what, len(names)-i)
			return
		}
		l.app.Print("%-10s %s  %d", what, oneField(name), counts[name])
	}
}
