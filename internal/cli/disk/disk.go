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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// When a running stage says how its disk fills: after First, when the rate has
// settled, and then at every Every.
const (
	First = 2 * time.Minute
	Every = time.Hour
)

// soon is the number of days below which a disk that fills is a warning.
const soon = 7

// space is what a job may still store; of names the disk or the limit.
type space struct {
	bytes float64 // NaN = not known
	of    string
	used  float64 // share of the whole; 0 = not known
}

// boundedBy are the keys of the configuration that bound each NATS stream.
var boundedBy = map[string]string{"IN": "input.max_age or input.max_bytes", "OUT": "output.keep", "DLQ": "dead_letters.keep"}

func streamKind(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Follow measures what a job writes and logs how its disk fills, until ctx
// ends. A server that does not answer is asked again.
func Follow(ctx context.Context, log *slog.Logger, b *server.Broker, c config.Config, first, every time.Duration) {
	nc, err := b.Dial(ctx, "eusn-stream/"+c.Job+"/disk")
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
		now, room, err := look(ctx, nc, b, c)
		switch {
		case err != nil:
			log.Debug("disk use could not be read", "err", err)
			wait = first
			continue
		case began:
			logGrowth(log, now.Since(before), room)
			wait = every
		default:
			began, wait = true, first
		}
		before = now
	}
}

// look asks what a job has stored, and what room there is.
func look(ctx context.Context, nc *nats.Conn, b *server.Broker, c config.Config) (admin.Stored, space, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return admin.Stored{}, space{}, err
	}
	j, err := admin.Open(ctx, js, c.Job)
	if err != nil {
		return admin.Stored{}, space{}, err
	}
	now, err := j.Stored(ctx)
	if err != nil {
		return now, space{}, err
	}
	if b.Embedded != nil {
		return now, localRoom(b.Embedded, c.Server.Dir), nil
	}
	return now, accountRoom(ctx, js), nil
}

// localRoom is what the embedded server may still store: its own limit, three
// quarters of what was free when it started, or the disk, if that has less.
func localRoom(s *natsserver.Server, dir string) space {
	room := space{bytes: math.NaN(), of: "the server's limit (three quarters of the free space at its start)"}
	if bytes, ok := s.FreeBytes(); ok {
		room.bytes = float64(bytes)
	}
	if free, _, ok := diskFree(dir); ok && !(room.bytes <= float64(free)) {
		room = space{bytes: float64(free), of: "the disk of " + dir}
	}
	if free, of, ok := diskFree(dir); ok {
		room.used = 1 - float64(free)/float64(max(of, 1))
	}
	return room
}

// accountRoom is what the account may still store on another's server.
func accountRoom(ctx context.Context, js jetstream.JetStream) space {
	info, err := js.AccountInfo(ctx)
	if err != nil || info.Limits.MaxStore < 0 {
		return space{bytes: math.NaN(), of: "the server's disk (only its operator can see it)"}
	}
	return space{max(0, float64(info.Limits.MaxStore)-float64(info.Store)), "the account's max_store", float64(info.Store) / float64(max(info.Limits.MaxStore, 1))}
}

// logGrowth says in a line how the disk fills.
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
	args = append(args, "free_of", room.of)
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

// finding is what doctor prints of the disk.
type finding struct{ status, sentence string }

// Check says for doctor how a job fills its disk: from what is stored where
// the job is to be seen, else by what the configuration bounds. The status is ok or
// note.
func Check(ctx context.Context, c config.Config) (status, sentence string) {
	f := check(ctx, c)
	return f.status, f.sentence
}

func check(ctx context.Context, c config.Config) finding {
	if c.NATS.URL == "" {
		return planned(c)
	}
	f := finding{"note", fmt.Sprintf("the disk use of job %q is unknown", c.Job)}
	b := &server.Broker{Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
		return natsclient.Connect(ctx, server.NATSOptions(c.NATS, name, nil))
	}}
	nc, err := b.Dial(ctx, "eusn-doctor/disk")
	if err != nil {
		f.sentence += ": the server cannot be reached."
		return f
	}
	defer nc.Close()
	held, room, err := look(ctx, nc, b, c)
	if errors.Is(err, admin.ErrNoJob) {
		f.sentence += ": the job has not run there. " + keysText(c)
		return f
	}
	if err != nil {
		f.sentence += fmt.Sprintf(": %v.", err)
		return f
	}
	return average(held.Average(), room)
}

// average words what a job has stored so far.
func average(g admin.Growth, room space) finding {
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
		f.sentence += fmt.Sprintf("; the free space of %s is unknown", room.of)
	} else {
		f.sentence += fmt.Sprintf("; %s GB are free of %s", gigabytes(room.bytes), room.of)
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

// planned is of an embedded server, which doctor does not start.
func planned(c config.Config) finding {
	f := finding{"ok", "the free disk space cannot be read on this system. "}
	dir := Existing(c.Server.Dir)
	free, of, ok := diskFree(dir)
	if ok {
		f.sentence = fmt.Sprintf("%s GB are free for %s. ", gigabytes(float64(free)), c.Server.Dir)
	}
	if unboundedKeys(c) != nil {
		f.status = "note"
	}
	if status, sentence := fillText(free, of); ok && status != "" {
		f.status, f.sentence = status, f.sentence+sentence
	}
	f.sentence += keysText(c)
	return f
}

// warnShare is how much of a disk may be used before that is worth a warning.
const warnShare = .85

// leastFree is what the embedded server needs to store anything: a block of each NATS stream.
const leastFree = 16 << 20

// fillText words that a disk is full or nearly so; the status is empty where it is not.
func fillText(free, of uint64) (status, sentence string) {
	switch used := 1 - float64(free)/float64(max(of, 1)); {
	case free < leastFree:
		return "problem", "The disk is full: nothing can be stored, and no prediction is made. Free space on it, or use --dir with a directory on another disk, into which the data directory was copied while no stage runs. "
	case used > warnShare:
		return "note", fmt.Sprintf("%.0f %% of the disk are used. ", 100*used)
	}
	return "", ""
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

// Existing is a directory, or the nearest parent that exists: it would be made
// there.
func Existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
