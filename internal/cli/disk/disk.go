package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// Times of a running stage's disk reports: after First, when the rate is stable, then every
// Every.
const (
	First = 2 * time.Minute
	Every = time.Hour
)

// soon is the number of days until a full disk below which a report is a warning.
const soon = 7

// space is the free space of a job, and the disk or limit that defines it.
type space struct {
	bytes     float64 // NaN = unknown
	shared    float64 // free space of the disk or account, which the job's NATS streams share; NaN = unknown
	limitedBy string
	used      float64 // used fraction of the whole; 0 = unknown
}

// boundedBy are the configuration keys that limit each NATS stream.
var boundedBy = map[string]string{"IN": "input.max_age or input.max_bytes", "OUT": "output.keep", "DLQ": "dead_letters.keep"}

func streamKind(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Watch measures a job's stored data until ctx ends, removes the oldest beyond their limits, and
// logs the limits and the growth.
func Watch(ctx context.Context, log *slog.Logger, b *server.Broker, c config.Config, first, interval time.Duration) {
	nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/disk")
	if err != nil {
		log.Warn("disk use is not monitored", "err", err)
		return
	}
	defer nc.Close()
	l := limiter{js: js, conf: c, log: log, age: admin.TrimLeast}
	var previous admin.Stored
	var due time.Time // of the next report; zero: nothing is measured yet
	for {
		current, room, err := measure(ctx, js, b, c)
		switch now := time.Now(); {
		case err != nil:
			log.Debug("disk use could not be read", "err", err)
		case due.IsZero():
			l.limit = limitOf(current.Average(), room)
			log.Info("disk: "+boundsText(addLimit(current.Average(), c, l.limit), math.Inf(1)), "free_of", room.limitedBy)
			previous, due = current, now.Add(first)
		case !now.Before(due):
			logGrowth(log, addLimit(current.Since(previous), c, l.limit), room)
			previous, due = current, now.Add(interval)
		}
		if err == nil {
			l.enforceLimit(ctx, current.Average())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(first, checkEvery)):
		}
	}
}

// measure returns the stored amounts of a job, and its free space.
func measure(ctx context.Context, js jetstream.JetStream, b *server.Broker, c config.Config) (admin.Stored, space, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	j, err := admin.Open(ctx, js, c.Job)
	if err != nil {
		return admin.Stored{}, space{}, err
	}
	stored, err := j.Stored(ctx)
	if err != nil {
		return stored, space{}, err
	}
	if c.NATS.URL == "" {
		return stored, localRoom(b.Embedded, c.Server.Dir), nil
	}
	return stored, accountRoom(ctx, js), nil
}

// localRoom returns the free space of an embedded server: its own limit, three quarters of the
// free space at its start (unknown if s, a server of another process, is nil), or the disk's
// free space if smaller.
func localRoom(s *natsserver.Server, dir string) space {
	room := space{bytes: math.NaN(), limitedBy: "the server's limit (three quarters of the free space at its start)"}
	if s != nil {
		if bytes, ok := s.FreeBytes(); ok {
			room.bytes = float64(bytes)
		}
	}
	room.shared = room.bytes
	if free, total, ok := diskFree(dir); ok {
		if !(room.bytes <= float64(free)) {
			room = space{bytes: float64(free), limitedBy: "the disk of " + dir}
		}
		room.shared, room.used = float64(free), 1-float64(free)/float64(max(total, 1))
	}
	return room
}

// accountRoom returns the free space of the account on an external server.
func accountRoom(ctx context.Context, js jetstream.JetStream) space {
	info, err := js.AccountInfo(ctx)
	if err != nil || info.Limits.MaxStore < 0 {
		return space{bytes: math.NaN(), shared: math.NaN(), limitedBy: "the server's disk (only its operator can see it)"}
	}
	free := max(0, float64(info.Limits.MaxStore)-float64(info.Store))
	return space{free, free, "the account's max_store", float64(info.Store) / float64(max(info.Limits.MaxStore, 1))}
}

// logGrowth logs one line about the growth.
func logGrowth(log *slog.Logger, g admin.Growth, room space) {
	say, days := log.Info, math.Inf(1)
	args := []any{"gb_a_day", gigabytes(g.PerDay())}
	for _, s := range g.Streams {
		kind := strings.ToLower(streamKind(s.Stream))
		args = append(args, kind+"_gb", gigabytes(float64(s.Bytes)), kind+"_gb_a_day", gigabytes(s.PerDay))
	}
	if !math.IsNaN(room.bytes) {
		days = g.Full(room.bytes)
		args = append(args, "free_gb", gigabytes(room.bytes))
	}
	args = append(args, "free_of", room.limitedBy)
	if !math.IsInf(days, 1) {
		args = append(args, "full_in_days", fmt.Sprintf("%.1f", days))
		if days < soon {
			say = log.Warn
		}
	}
	if room.used > warnShare {
		say = log.Warn
		args = append(args, "used_percent", fmt.Sprintf("%.0f", 100*room.used))
	}
	if g.Dropped > 0 {
		args = append(args, "dead_letters_gone", g.Dropped)
	}
	say("disk: "+boundsText(g, days), args...)
}

// boundsText describes the limits of a job's NATS streams.
func boundsText(g admin.Growth, days float64) string {
	var unbounded, bounded []string
	for _, s := range g.Streams {
		kind := streamKind(s.Stream)
		if len(s.Bounds) == 0 {
			unbounded = append(unbounded, fmt.Sprintf("%s (%s)", s.Stream, boundedBy[kind]))
		} else {
			bounded = append(bounded, s.Stream+" by "+strings.Join(s.Bounds, ", "))
		}
	}
	text := ""
	if len(unbounded) > 0 {
		text = "no limit on " + strings.Join(unbounded, " and ")
	}
	if len(bounded) > 0 {
		if text != "" {
			text += "; "
		}
		text += "limits: " + strings.Join(bounded, "; ")
	}
	if len(unbounded) == 0 && !math.IsInf(days, 1) {
		text += "; the disk has less free space than these limits"
	}
	return text
}

// gigabytes formats bytes as GB with three digits.
func gigabytes(bytes float64) string { return fmt.Sprintf("%.3g", bytes/1e9) }

// finding is doctor's result about the disk.
type finding struct{ status, sentence string }

// CheckDisk returns doctor's result about the disk use of a job: from the stored amounts if the job
// is reachable (b is not nil), otherwise from the limits in the configuration. The status is ok or note.
func CheckDisk(ctx context.Context, b *server.Broker, c config.Config) (status, sentence string) {
	f := checkJob(ctx, b, c)
	return f.status, f.sentence
}

func checkJob(ctx context.Context, b *server.Broker, c config.Config) finding {
	if b == nil {
		return describePlan(c)
	}
	f := finding{"note", fmt.Sprintf("the disk use of job %q is unknown", c.Job)}
	nc, js, err := b.Open(ctx, "eusn-doctor/disk")
	if err != nil {
		f.sentence += ": the server cannot be reached."
		return f
	}
	defer nc.Close()
	stored, room, err := measure(ctx, js, b, c)
	if errors.Is(err, admin.ErrNoJob) {
		if c.NATS.URL != "" && math.IsNaN(accountRoom(ctx, js).shared) { // nothing to share
			c.Input.MaxBytes, c.Output.Keep = max(0, c.Input.MaxBytes), max(0, c.Output.Keep)
		}
		f.sentence += ": the job has not run there. " + keysText(c)
		return f
	}
	if err != nil {
		f.sentence += fmt.Sprintf(": %v.", err)
		return f
	}
	g := stored.Average()
	return describeAverage(addLimit(g, c, limitOf(g, room)), room)
}

// describeAverage describes the stored amounts of a job.
func describeAverage(g admin.Growth, room space) finding {
	f, days := finding{"ok", ""}, math.Inf(1)
	if !math.IsNaN(room.bytes) {
		days = g.Full(room.bytes)
	}
	for i, s := range g.Streams {
		if i > 0 {
			f.sentence += "; "
		}
		f.sentence += fmt.Sprintf("%s holds %s GB", s.Stream, gigabytes(float64(s.Bytes)))
		if s.Over > 0 {
			f.sentence += fmt.Sprintf(", stored within %v at %s GB a day", s.Over.Round(time.Second), gigabytes(s.PerDay))
		}
		if len(s.Bounds) == 0 {
			f.status = "note"
		}
	}
	if math.IsNaN(room.bytes) {
		f.sentence += fmt.Sprintf("; the free space of %s is unknown", room.limitedBy)
	} else {
		f.sentence += fmt.Sprintf("; %s GB are free of %s", gigabytes(room.bytes), room.limitedBy)
	}
	if !math.IsInf(days, 1) {
		f.status = "note"
		f.sentence += fmt.Sprintf(", full in %.1f days", days)
	}
	f.sentence += "; " + boundsText(g, days)
	if g.Dropped > 0 {
		f.sentence += fmt.Sprintf("; %d older dead letters were dropped", g.Dropped)
	}
	f.sentence += "."
	return f
}

// describePlan describes an embedded server, which doctor does not start.
func describePlan(c config.Config) finding {
	f := finding{"ok", "the free disk space cannot be read on this system. "}
	dir := Existing(c.Server.Dir)
	free, total, ok := diskFree(dir)
	if ok {
		f.sentence = fmt.Sprintf("%s GB are free for %s. ", gigabytes(float64(free)), c.Server.Dir)
	}
	if unboundedKeys(c) != nil {
		f.status = "note"
	}
	if status, sentence := fillText(free, total); ok && status != "" {
		f.status, f.sentence = status, f.sentence+sentence
	}
	f.sentence += keysText(c)
	return f
}

// warnShare is the used fraction of a disk above which a report is a warning.
const warnShare = .85

// minFree is the minimum for the embedded server to store anything: one block per NATS stream.
const minFree = 16 << 20

// fillText describes a full or nearly full disk; otherwise the status is empty.
func fillText(free, total uint64) (status, sentence string) {
	switch used := 1 - float64(free)/float64(max(total, 1)); {
	case free < minFree:
		return "problem", "The disk is full: nothing can be stored, and no prediction is made. Free space on it, or use --dir with a directory on another disk, into which the data directory was copied while no stage runs. "
	case used > warnShare:
		return "note", fmt.Sprintf("%.0f %% of the disk are used. ", 100*used)
	}
	return "", ""
}

// unboundedKeys lists the keys for limits missing in the configuration.
func unboundedKeys(c config.Config) (keys []string) {
	if c.Input.MaxAge == 0 && c.Input.MaxBytes == 0 {
		keys = append(keys, "the input ("+boundedBy["IN"]+")")
	}
	if c.Output.Keep == 0 {
		keys = append(keys, "the predictions ("+boundedBy["OUT"]+")")
	}
	if c.DeadLetters.Keep < 0 {
		keys = append(keys, "the dead letters ("+boundedBy["DLQ"]+")")
	}
	return keys
}

func keysText(c config.Config) string {
	if keys := unboundedKeys(c); keys != nil {
		return "Only the disk limits " + strings.Join(keys, ", ") + ". eusn-stream run reports the GB per day after two minutes, and so does doctor while it runs."
	}
	return "The configuration limits input, predictions and dead letters of a new job."
}

// Existing returns a directory, or its nearest existing parent, on whose disk it would be
// created.
func Existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
