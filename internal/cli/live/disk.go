package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline/admin"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// A running stage says how its disk fills after diskFirst, when the rate has
// settled, and then every diskEvery.
const (
	diskFirst = 2 * time.Minute
	diskEvery = time.Hour
)

// soon is the number of days below which a disk that fills is a warning.
const soon = 7

// diskRoom is what a job may still store; of names the disk or the limit.
type diskRoom struct {
	bytes float64 // NaN = not known
	of    string
}

// boundedBy are the keys of the configuration that bound each NATS stream.
var boundedBy = map[string]string{"IN": "input.max_age or input.max_bytes", "OUT": "output.keep", "DLQ": "dead_letters.keep"}

func streamKind(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// followDisk measures what a job writes and logs how its disk fills, until ctx
// ends. A server that does not answer is asked again.
func followDisk(ctx context.Context, log *slog.Logger, b *broker, c config.Config, first, every time.Duration) {
	nc, err := b.dial("eusn-stream/" + c.Job + "/disk")
	if err != nil {
		log.Warn("disk use is not monitored", "err", err)
		return
	}
	defer nc.Close()
	var before admin.Stored
	began := false
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		now, room, err := lookAtDisk(ctx, nc, b, c)
		switch {
		case err != nil:
			log.Debug("disk use could not be read", "err", err)
			wait = first
			continue
		case began:
			logDisk(log, now.Since(before), room)
			wait = every
		default:
			began, wait = true, first
		}
		before = now
	}
}

// lookAtDisk asks what a job has stored, and what room there is.
func lookAtDisk(ctx context.Context, nc *nats.Conn, b *broker, c config.Config) (admin.Stored, diskRoom, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return admin.Stored{}, diskRoom{}, err
	}
	j, err := admin.Open(ctx, js, c.Job)
	if err != nil {
		return admin.Stored{}, diskRoom{}, err
	}
	now, err := j.Stored(ctx)
	if err != nil {
		return now, diskRoom{}, err
	}
	if b.server != nil {
		return now, localRoom(b.server, c.Server.Dir), nil
	}
	return now, accountRoom(ctx, js), nil
}

// localRoom is what the embedded server may still store: its own limit, three
// quarters of what was free when it started, or the disk, if that has less.
func localRoom(s *natsserver.Server, dir string) diskRoom {
	room := diskRoom{math.NaN(), "the server's limit (three quarters of the free space at its start)"}
	if bytes, ok := s.Room(); ok {
		room.bytes = float64(bytes)
	}
	if free, ok := diskFree(dir); ok && !(room.bytes <= float64(free)) {
		room = diskRoom{float64(free), "the disk of " + dir}
	}
	return room
}

// accountRoom is what the account may still store on another's server.
func accountRoom(ctx context.Context, js jetstream.JetStream) diskRoom {
	info, err := js.AccountInfo(ctx)
	if err != nil || info.Limits.MaxStore < 0 {
		return diskRoom{math.NaN(), "the server's disk (only its operator can see it)"}
	}
	return diskRoom{max(0, float64(info.Limits.MaxStore)-float64(info.Store)), "the account's max_store"}
}

// logDisk says in a line how the disk fills.
func logDisk(log *slog.Logger, g admin.Growth, room diskRoom) {
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
	args = append(args, "free_of", room.of)
	if !math.IsInf(days, 1) {
		args = append(args, "full_in_days", fmt.Sprintf("%.1f", days))
		if days < soon {
			say = log.Warn
		}
	}
	if g.Dropped > 0 {
		args = append(args, "dead_letters_gone", g.Dropped)
	}
	say("disk: "+boundsText(g, days), args...)
}

// boundsText says what keeps a job's NATS streams from growing for ever.
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

// gigabytes has the digits that matter.
func gigabytes(bytes float64) string { return fmt.Sprintf("%.3g", bytes/1e9) }

// checkDisk says for doctor how a job fills its disk: from what is stored where
// the job is to be seen, else by what the configuration bounds.
func checkDisk(ctx context.Context, c config.Config) Finding {
	if c.NATS.URL == "" {
		return plannedDisk(c)
	}
	f := Finding{"disk", "note", fmt.Sprintf("the disk use of job %q is unknown", c.Job)}
	b := &broker{dial: func(name string) (*nats.Conn, error) { return natsclient.Connect(natsOptions(c.NATS, name, nil)) }}
	nc, err := b.dial("eusn-doctor/disk")
	if err != nil {
		f.Sentence += ": the server cannot be reached."
		return f
	}
	defer nc.Close()
	held, room, err := lookAtDisk(ctx, nc, b, c)
	if errors.Is(err, admin.ErrNoJob) {
		f.Sentence += ": the job has not run there. " + keysText(c)
		return f
	}
	if err != nil {
		f.Sentence += fmt.Sprintf(": %v.", err)
		return f
	}
	return averageDisk(held.Average(), room)
}

// averageDisk words what a job has stored so far.
func averageDisk(g admin.Growth, room diskRoom) Finding {
	f, days := Finding{"disk", "ok", ""}, math.Inf(1)
	if !math.IsNaN(room.bytes) {
		days = g.Full(room.bytes)
	}
	for i, s := range g.Streams {
		if i > 0 {
			f.Sentence += "; "
		}
		f.Sentence += fmt.Sprintf("%s holds %s GB", s.Stream, gigabytes(float64(s.Bytes)))
		if s.Over > 0 {
			f.Sentence += fmt.Sprintf(", stored within %v at %s GB a day", s.Over.Round(time.Second), gigabytes(s.PerDay))
		}
		if len(s.Bounds) == 0 {
			f.Status = "note"
		}
	}
	if math.IsNaN(room.bytes) {
		f.Sentence += fmt.Sprintf("; the free space of %s is unknown", room.of)
	} else {
		f.Sentence += fmt.Sprintf("; %s GB are free of %s", gigabytes(room.bytes), room.of)
	}
	if !math.IsInf(days, 1) {
		f.Status = "note"
		f.Sentence += fmt.Sprintf(", full in %.1f days", days)
	}
	f.Sentence += "; " + boundsText(g, days)
	if g.Dropped > 0 {
		f.Sentence += fmt.Sprintf("; %d older dead letters were dropped", g.Dropped)
	}
	f.Sentence += "."
	return f
}

// plannedDisk is of an embedded server, which doctor does not start.
func plannedDisk(c config.Config) Finding {
	f := Finding{"disk", "ok", "the free disk space cannot be read on this system. "}
	dir := existing(c.Server.Dir)
	if free, ok := diskFree(dir); ok {
		f.Sentence = fmt.Sprintf("%s GB are free for %s. ", gigabytes(float64(free)), c.Server.Dir)
	}
	if unboundedKeys(c) != nil {
		f.Status = "note"
	}
	f.Sentence += keysText(c)
	return f
}

// unboundedKeys are the keys that would bound what a configuration leaves to
// the disk.
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
		return "Only the disk limits " + strings.Join(keys, ", ") + ". eusn-stream run reports the GB per day after two minutes, and so does doctor --nats-url while it runs."
	}
	return "The configuration limits input, predictions and dead letters of a new job."
}
