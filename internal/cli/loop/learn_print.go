package loop

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/offline"
)

// learned is the output of --json.
type learned struct {
	learn.Report
	Sequences int                    `json:"features_stored"` // sequences with features in the store
	Model     *models.Report         `json:"model,omitempty"` // none: nothing was learned
	Fit       *offline.RetrainReport `json:"report,omitempty"`
	Sites     []siteResult           `json:"left_out,omitempty"`
	Published *publishedModel        `json:"published,omitempty"` // none: without --publish
}

// mostRows bounds a table for people.
const mostRows = 20

// printResult reports the use of the labels, and the result of training; nil: none.
func (l *learning) printResult(j learn.JoinResult, f *fitted) error {
	did := learned{Report: j.Report, Sequences: l.store.Len()}
	if f != nil {
		name := cmp.Or(l.opt.out, filepath.Base(l.conf.Model))
		m, err := models.Describe(f.model, name)
		if err != nil {
			return err
		}
		did.Model, did.Fit, did.Sites, did.Published = &m, f.report, f.sites, f.entry
	}
	if l.app.JSON {
		return l.app.PrintJSON(did)
	}
	l.printLabels(j.Report)
	if f == nil {
		return nil
	}
	l.app.Print("readout    %s", f.report.Readout.String())
	if r := f.model.Readouts[0].Abstain; r != nil {
		l.app.Print("answers    %s", models.AnswersText(*r))
	}
	if r := f.report.Readout.Adaptive; r != nil {
		l.app.Print("adaptive   %s", r)
	}
	for _, s := range f.sites {
		l.app.Print("left out   %s: %s", term.OneField(s.Site), s)
	}
	l.app.Print("model      %s, sha256 %s", cmp.Or(l.opt.out, "no file"), did.Model.SHA256)
	if f.entry != nil {
		l.app.Print("published  %s", f.entry.Fingerprint)
	}
	if len(f.report.Divided) > 0 {
		l.app.Say("warning: all labeled sequences of %s follow one another: leave-one-out can leave out only parts of them, so its accuracy is too optimistic", models.ListText(f.report.Divided))
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
		a.Print("           %s  %s  %s  %s", term.OneField(p.Stream), p.Where, term.OneField(p.Class), term.OneField(p.Who))
	}
	for _, d := range first(r.DisputeList) {
		a.Print("disputed   %s  seq %d row %d  %s", term.OneField(d.Stream), d.Seq, d.Row, models.ListText(d.Says))
	}
	for _, m := range first(r.MalformedList) {
		a.Print("no label   message %d: %s", m.Number, m.Error)
	}
	a.Print("sequences  %d learned from, %d disputed, %d left out, %d flagged", r.Sequences, r.Disputes, r.LeftOut, r.Flagged)
	l.printCounts("class", r.Classes)
	l.printCounts("stream", r.Streams)
}

// first shortens a list for people; --json has the whole list.
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
		l.app.Print("%-10s %s  %d", what, term.OneField(name), counts[name])
	}
}
