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

// harm damages the stores of the servers, after a share of the load. It returns an error
// if the damage did not happen.
type harm struct {
	Kind  string
	Share float64
	do    func(ctx context.Context, r *run, js jetstream.JetStream) error
}

// countHarms returns the number of planned harms of a kind.
func (s *scenario) countHarms(what string) (n int) {
	for _, h := range s.Harms {
		if h.Kind == what {
			n++
		}
	}
	return n
}

func (r *run) applyHarm(ctx context.Context, js jetstream.JetStream, h harm) error {
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	if err := h.do(ctx, r, js); err != nil {
		return fmt.Errorf("chaos: %s: %w", h.Kind, err)
	}
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	r.fleet.faults.addHarm(h.Kind, 1)
	return nil
}

// newRand returns a generator for the choices of a harm.
func (r *run) newRand(what string) *rand.Rand {
	sum := uint64(0)
	for _, c := range what {
		sum = sum*31 + uint64(c)
	}
	return rand.New(rand.NewPCG(r.seed, sum))
}

// storeDir returns the folder of a NATS stream in a node without an image; of all streams
// if stream is empty.
func (c *cluster) storeDir(n *node, stream string) string {
	return filepath.Join(c.dir, n.name, "jetstream", "$G", "streams", stream)
}

// whileDown kills the only server, calls do and restarts the server.
func (c *cluster) whileDown(do func(*node) error) error {
	n := c.nodes[0]
	n.proc.kill()
	if !n.proc.wasKilled() {
		return fmt.Errorf("server %s had ended by itself: %s", n.name, n.proc.exitStatus())
	}
	if err := do(n); err != nil {
		return err
	}
	return c.startNode(n)
}

// rewinding is the return of a server's store to an earlier time.
type rewinding struct {
	keep, back float64  // shares of the load: of the copy, and of the return
	streams    []string // streams whose directories are reset; none = all
	resend     bool     // producers resend the messages since the copy
	restart    bool     // the workers are killed as well: new workers know only the servers' data
}

// rewindStore is two harms. First the directories of NATS streams are copied while the
// server is stopped. Later the server is killed, the copies are restored, and the server
// restarts at once. From then on producers do not pause: before the workers return, the
// input holds more messages than were read.
func rewindStore(w rewinding) []harm {
	b := &backup{}
	what := "rewind of " + cmp.Or(strings.Join(w.streams, " and "), "everything")
	return []harm{
		{"backup", w.keep, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			*b = backup{dir: filepath.Join(r.dir, "backup"), resend: r.producers.markPosition()}
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
			return r.cluster.startNode(n)
		}},
		{what, w.back, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			last, err := lastSeq(ctx, js, inputStream)
			if err != nil {
				return err
			}
			if last < b.last+100 {
				return fmt.Errorf("the input grew only from message %d to %d since the copy", b.last, last)
			}
			r.fleet.cutAll()
			defer r.fleet.mendAll()
			err = r.cluster.whileDown(func(n *node) error {
				if err := b.putBack(r.cluster.storeDir(n, ""), w.streams); err != nil {
					return err
				}
				if w.resend {
					b.resend()
				}
				if w.restart {
					r.fleet.killAll()
				}
				r.producers.hurried.Store(true)
				return nil
			})
			if err != nil {
				return err
			}
			return r.awaitRefill(ctx, js, last)
		}},
	}
}

// backup is a copy of all NATS streams' directories.
type backup struct {
	dir    string
	last   uint64 // last input message
	resend func() // lets producers resend the messages since the copy
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

// refillWithin is the longest time for producers to fill the input beyond the last read
// message; the workers are kept away meanwhile.
const refillWithin = 5 * time.Second

func (r *run) awaitRefill(ctx context.Context, js jetstream.JetStream, beyond uint64) error {
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

// flipStore kills the server and flips one bit in the newest block of a NATS stream's
// messages.
func flipStore(at float64, stream string) harm {
	return harm{"bit flipped in " + stream, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		return r.cluster.whileDown(func(n *node) error { return flipBit(r.cluster.storeDir(n, stream), r.newRand(stream)) })
	}}
}

// flipBit flips a bit in the second half of the largest block.
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

// loseSum kills the server and removes the checksum of a NATS stream's metadata, as a
// crash between two writes of the server does.
func loseSum(at float64, stream string) harm {
	return harm{"meta.sum of " + stream + " lost", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		return r.cluster.whileDown(func(n *node) error {
			return os.Remove(filepath.Join(r.cluster.storeDir(n, stream), "meta.sum"))
		})
	}}
}

// killAll kills every worker; the seats are refilled.
func (f *fleet) killAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.seats {
		if w != nil && !w.hasEnded() {
			w.kill()
			f.spawnWorker(w.seat)
		}
	}
}

// withUnread keeps the workers away until the input has n unread messages, calls do, and
// lets the workers return.
func (r *run) withUnread(ctx context.Context, js jetstream.JetStream, n uint64, do func(from, to uint64) error) error {
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
			return fmt.Errorf("the input grew only from message %d to %d in %v", from, to, answerWithin)
		}
	}
}

// purgeUnread removes unread input.
func purgeUnread(at float64) harm {
	return harm{"purge of unread input", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		return r.withUnread(ctx, js, 200, func(_, to uint64) error {
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
		return r.withUnread(ctx, js, 200, func(from, to uint64) error {
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

// deleteAnswered removes recently answered messages that are not all in a snapshot, and
// kills the workers.
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
		if err := awaitAnswer(ctx, js, outputStream, last); err != nil {
			return err
		}
		r.fleet.killAll()
		for seq := last; seq > 3 && seq+600 > last; seq -= 3 {
			if err := s.DeleteMsg(ctx, seq); err != nil {
				return err
			}
		}
		return nil
	}}
}

// limitStream sets limits on a NATS stream that drop old messages. If back is true, the
// limits are reset at once; otherwise they remain for the next workers.
func limitStream(at float64, stream string, back bool, change func(*jetstream.StreamConfig)) harm {
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
			err = r.withUnread(ctx, js, 200, do)
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

// purgeStream removes all messages of a NATS stream.
func purgeStream(at float64, stream string) harm {
	return harm{"purge of " + stream, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	}}
}

// listFiles lists the regular files under a directory.
func listFiles(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, path)
		}
		return err
	})
	return list, err
}
