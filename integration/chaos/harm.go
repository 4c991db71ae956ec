//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// harm damages what the servers store, after a share of the load. It returns an
// error if it did not happen.
type harm struct {
	What string
	At   float64
	do   func(ctx context.Context, r *run, js jetstream.JetStream) error
}

// harms is how many of a kind a scenario plans.
func (s *scenario) harms(what string) (n int) {
	for _, h := range s.Harms {
		if h.What == what {
			n++
		}
	}
	return n
}

func (r *run) harm(ctx context.Context, js jetstream.JetStream, h harm) error {
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	if err := h.do(ctx, r, js); err != nil {
		return fmt.Errorf("chaos: %s: %w", h.What, err)
	}
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	r.fleet.faults.harmed(h.What, 1)
	return nil
}

// rng is for choices of a harm.
func (r *run) rng(what string) *rand.Rand {
	sum := uint64(0)
	for _, c := range what {
		sum = sum*31 + uint64(c)
	}
	return rand.New(rand.NewPCG(r.seed, sum))
}

// storeDir is where a node without an image keeps a NATS stream; of no name,
// all of them.
func (c *cluster) storeDir(n *node, stream string) string {
	return filepath.Join(c.dir, n.name, "jetstream", "$G", "streams", stream)
}

// down kills the only server.
func (c *cluster) down() (*node, error) {
	n := c.nodes[0]
	n.proc.kill()
	if !n.proc.killed() {
		return nil, fmt.Errorf("server %s had ended by itself: %s", n.name, n.proc.how())
	}
	return n, nil
}

// rewinding is a server's store that goes back in time.
type rewinding struct {
	keep, back float64  // shares of the load: of the copy, and of its return
	streams    []string // whose directories go back; none = all
	resend     bool     // producers begin again with what they sent since the copy
	restart    bool     // the workers are killed, too: the next ones know only what the servers hold
}

// rewind is two harms. First the directories of NATS streams are copied while the
// server is stopped. Later the server is killed, the copies are put back, and it
// starts at once. From then on producers make no pauses: before the workers come
// back, the input holds more messages than were read.
func rewind(w rewinding) []harm {
	b := &backup{}
	what := "rewind of " + cmp.Or(strings.Join(w.streams, " and "), "everything")
	return []harm{
		{"backup", w.keep, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			*b = backup{dir: filepath.Join(r.dir, "backup"), again: r.producers.mark()}
			var err error
			if b.last, err = lastSeq(ctx, js, inputStream); err != nil {
				return err
			}
			n := r.cluster.nodes[0]
			if how := n.proc.stop(serverStart); how != endedWell {
				return fmt.Errorf("the server ended with %s", how)
			}
			if err := os.CopyFS(b.dir, os.DirFS(r.cluster.storeDir(n, ""))); err != nil {
				return err
			}
			return r.cluster.start(n)
		}},
		{what, w.back, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			last, err := lastSeq(ctx, js, inputStream)
			if err != nil {
				return err
			}
			if last < b.last+100 {
				return fmt.Errorf("the input went from message %d to %d alone since the copy", b.last, last)
			}
			r.fleet.cutAll()
			defer r.fleet.mendAll()
			n, err := r.cluster.down()
			if err != nil {
				return err
			}
			if err := b.putBack(r.cluster.storeDir(n, ""), w.streams); err != nil {
				return err
			}
			if w.resend {
				b.again()
			}
			if w.restart {
				r.fleet.killAll()
			}
			r.producers.hurried.Store(true)
			if err := r.cluster.start(n); err != nil {
				return err
			}
			return r.refilled(ctx, js, last)
		}},
	}
}

// backup is a copy of all NATS streams' directories.
type backup struct {
	dir   string
	last  uint64 // message of the input
	again func() // lets producers send again what they sent since
}

func (b *backup) putBack(dir string, streams []string) error {
	if len(streams) == 0 {
		return replaceDir(dir, b.dir)
	}
	for _, name := range streams {
		if err := replaceDir(filepath.Join(dir, name), filepath.Join(b.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// refillWithin is how long workers are kept away until producers have filled the
// input beyond what was read.
const refillWithin = 5 * time.Second

func (r *run) refilled(ctx context.Context, js jetstream.JetStream, beyond uint64) error {
	for begin := time.Now(); time.Since(begin) < refillWithin; time.Sleep(50 * time.Millisecond) {
		if last, err := lastSeq(ctx, js, inputStream); err != nil || last > beyond+50 {
			return err
		}
	}
	return nil
}

func replaceDir(dir, with string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(with))
}

// flip kills the server and flips one bit in the newest block of a NATS
// stream's messages.
func flip(at float64, stream string) harm {
	return harm{"bit flipped in " + stream, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		n, err := r.cluster.down()
		if err != nil {
			return err
		}
		if err := flipBit(r.cluster.storeDir(n, stream), r.rng(stream)); err != nil {
			return err
		}
		return r.cluster.start(n)
	}}
}

// flipBit changes a bit somewhere in the second half of the largest block.
func flipBit(dir string, rng *rand.Rand) error {
	blocks, err := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	if err != nil {
		return err
	}
	size := func(path string) int64 {
		if info, err := os.Stat(path); err == nil {
			return info.Size()
		}
		return 0
	}
	if len(blocks) == 0 {
		return fmt.Errorf("no blocks in %s", dir)
	}
	path := slices.MaxFunc(blocks, func(a, b string) int { return int(size(a) - size(b)) })
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) < 2 {
		return fmt.Errorf("%s has %d bytes", path, len(data))
	}
	data[len(data)/2+rng.IntN(len(data)/2)] ^= 1 << rng.IntN(8)
	return os.WriteFile(path, data, 0o644)
}

// loseSum kills the server and removes the checksum of a NATS stream's
// description, as a crash between two writes of the server does.
func loseSum(at float64, stream string) harm {
	return harm{"meta.sum of " + stream + " lost", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		n, err := r.cluster.down()
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(r.cluster.storeDir(n, stream), "meta.sum")); err != nil {
			return err
		}
		return r.cluster.start(n)
	}}
}

// killAll kills every worker; their seats are filled again.
func (f *fleet) killAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.seats {
		if w != nil && !w.ended() {
			w.kill()
			f.spawn(w.seat)
		}
	}
}

// unread keeps the workers away until the input has that many unread messages,
// calls do, and lets the workers come back.
func (r *run) unread(ctx context.Context, js jetstream.JetStream, n uint64, do func(from, to uint64) error) error {
	r.fleet.cutAll()
	defer r.fleet.mendAll()
	from, err := lastSeq(ctx, js, inputStream)
	if err != nil {
		return err
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		to, err := lastSeq(ctx, js, inputStream)
		if err != nil {
			return err
		}
		if to >= from+n {
			return do(from, to)
		}
		if time.Since(begin) > answerWithin {
			return fmt.Errorf("the input went from message %d to %d alone in %v", from, to, answerWithin)
		}
	}
}

// purgeUnread removes unread input.
func purgeUnread(at float64) harm {
	return harm{"purge of unread input", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		return r.unread(ctx, js, 200, func(_, to uint64) error {
			s, err := js.Stream(ctx, inputStream)
			if err != nil {
				return err
			}
			return s.Purge(ctx, jetstream.WithPurgeSequence(to-20))
		})
	}}
}

// deleteUnread removes every fourth of some unread messages.
func deleteUnread(at float64) harm {
	return harm{"deletion of unread input", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		return r.unread(ctx, js, 200, func(from, to uint64) error {
			s, err := js.Stream(ctx, inputStream)
			if err != nil {
				return err
			}
			for seq := from + 10; seq < to; seq += 4 {
				if err := s.DeleteMsg(ctx, seq); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}

// deleteAnswered removes messages that were just answered and are not all in a
// snapshot, and kills the workers.
func deleteAnswered(at float64) harm {
	return harm{"deletion of answered input", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, inputStream)
		if err != nil {
			return err
		}
		last, err := lastSeq(ctx, js, inputStream)
		if err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // to be answered
		r.fleet.killAll()
		for seq := last; seq > 0 && seq > last-200; seq -= 3 {
			if err := s.DeleteMsg(ctx, seq); err != nil {
				return err
			}
		}
		return nil
	}}
}

// limit sets limits on a NATS stream that drop old messages. It removes them at
// once, or leaves them for the next workers.
func limit(at float64, stream string, back bool, change func(*jetstream.StreamConfig)) harm {
	return harm{"limit on " + stream, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		was := s.CachedInfo().Config
		do := func(_, _ uint64) error {
			is := was
			change(&is)
			_, err := js.UpdateStream(ctx, is)
			return err
		}
		if stream == inputStream {
			err = r.unread(ctx, js, 200, do)
		} else {
			err = do(0, 0)
		}
		if err != nil {
			return err
		}
		if !back {
			r.fleet.killAll()
			return nil
		}
		_, err = js.UpdateStream(ctx, was)
		return err
	}}
}

// purge removes all that a NATS stream holds.
func purge(at float64, stream string) harm {
	return harm{"purge of " + stream, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	}}
}

// files lists the regular files under a directory.
func files(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, path)
		}
		return err
	})
	return list, err
}
