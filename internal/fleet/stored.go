package fleet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// readModel reads the job's model.
func (l *reportBuilder) readModel() error {
	e, seq, err := store.ReadEntry(l.ctx, l.job.Out, l.job.Name)
	if err == nil && seq == 0 {
		if err = store.CheckOutput(l.ctx, l.js, l.job.Name, l.job.InputJob()); errors.As(err, &l.lost) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	last := e.Promotions.Last()
	m := JobModel{Name: e.Meta.Model, SHA256: e.Meta.SHA256, Readout: e.Meta.Readout, Promoted: last.Readout, Promotions: last.Number, Shadows: []string{}}
	cleanNames(&m.Name, &m.SHA256, &m.Readout)
	shadows, err := wire.ParseShadows(e.Shadows)
	for _, s := range shadows {
		m.Shadows = append(m.Shadows, s.Readout)
	}
	l.report.Model = m
	for _, p := range e.Promotions {
		what := "readout " + p.Readout
		if p.Readout == "" {
			what = "the first readout"
		}
		l.report.Marks = append(l.report.Marks, Mark{p.When, MarkPromoted, cleanText(fmt.Sprintf("%s promoted by %s", what, p.Who))})
	}
	return err
}

// readAlarms reads the active alarms.
func (l *reportBuilder) readAlarms() error {
	l.report.Alarms = Alarms{List: []Alarm{}, Quiet: []string{}}
	on, err := watch.ActiveAlarms(l.ctx, l.js, l.job.Name)
	if errors.Is(err, watch.ErrNoAlarms) {
		return nil
	}
	if err != nil {
		return err
	}
	a := Alarms{Kept: true, On: len(on), List: []Alarm{}, Quiet: []string{}}
	for _, name := range wire.AlarmOutputs {
		_, info, err := watch.FindOutput(l.ctx, l.js, l.job.Name, name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		a.Outputs = append(a.Outputs, Output{name, info.NumPending + uint64(info.NumAckPending), info.Paused, watch.OutputDiffers(l.job.Name, name, info.Config)})
	}
	silent, err := l.readSilentRules()
	if err != nil {
		return err
	}
	a.Watched = len(silent) > 0
	for i := range on {
		entry := Alarm{Rule: on[i].Rule, Key: cleanText(on[i].Key), Since: on[i].Time}
		if on[i].Kind == alarm.Acknowledged {
			entry.Acknowledged = cleanText(on[i].Who)
		} else {
			a.Open++
		}
		if silent[entry.Rule] && len(a.Quiet) < MostAlarms {
			a.Quiet = append(a.Quiet, entry.Key)
		}
		a.List = append(a.List, entry)
	}
	slices.SortStableFunc(a.List, func(x, y Alarm) int { return y.Since.Compare(x.Since) })
	a.List, a.LeftOut = firstOf(a.List, MostAlarms), max(0, len(a.List)-MostAlarms)
	l.report.Alarms = a
	return nil
}

// readSilentRules returns the names of the current rules of kind silent.
func (l *reportBuilder) readSilentRules() (map[string]bool, error) {
	e, err := watch.CurrentRules(l.ctx, l.js, l.job.Name)
	if err != nil || e == nil {
		return nil, err
	}
	rules, err := alarm.ParseRules(e.Rules)
	if err != nil {
		return nil, err
	}
	silent := map[string]bool{}
	for _, rule := range rules {
		if rule.Silent > 0 {
			silent[rule.Name] = true
		}
	}
	return silent, nil
}

// readDisk reads the job's storage on the server.
func (l *reportBuilder) readDisk() error {
	j, err := admin.Open(l.ctx, l.js, l.job.Name)
	if err != nil {
		return err
	}
	stored, err := j.Stored(l.ctx)
	if err != nil {
		return err
	}
	g := stored.Average()
	d := Disk{PerDay: g.PerDay(), Streams: []DiskStream{}}
	for _, s := range g.Streams {
		d.Bytes += s.Bytes
		d.Over = max(d.Over, s.Over.Seconds())
		d.Streams = append(d.Streams, DiskStream{s.Stream, s.Bytes, s.PerDay, append([]string{}, s.Bounds...)})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.Limit, d.Used = l.report.Disk.Limit, l.report.Disk.Used
	l.report.Disk = d
	return nil
}

// readAccount reads the account's storage limit.
func (l *reportBuilder) readAccount() error {
	info, err := l.js.AccountInfo(l.ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Disk.Limit, l.report.Disk.Used = uint64(max(0, info.Limits.MaxStore)), info.Store
	return nil
}
