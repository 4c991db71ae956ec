package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	maxKeys = 1 << 18         // keys of a gateway, so that senders of invented keys cannot fill the memory
	askWait = 3 * time.Second // for one request to the server

	quietAttempts = 4 // to find the input, within a second
)

// job is the gateway's knowledge of the job's input.
type job struct {
	pattern wire.Pattern // of the input subject
	mu      sync.Mutex
	in      jetstream.Stream // time at which the input was found
	known   sync.Map         // key -> outbox.Number: the key's last number in the input
	keys    atomic.Int64
	begun   begun
}

// fullKey returns the job's key of a stream. The gateway joins the levels of a key by
// "/". If the job's keys have several tokens, each level is a token.
func (j *job) fullKey(key string) string {
	if j.pattern.IsSeveral() {
		return strings.ReplaceAll(key, "/", ".")
	}
	return key
}

// learnNumber asks the input for the last number of a key new to this run, and limits
// the keys unknown to the input. Any goroutine may call it. learnNumber waits for an
// answer, until ctx ends. from is the sender's address.
func (g *Gateway) learnNumber(ctx context.Context, key, from string) error {
	if _, ok := g.job.known.Load(key); ok {
		return nil
	}
	if g.job.keys.Load() >= maxKeys {
		return refusedf("stream %q: the gateway has %d streams already, as many as it may have", key, maxKeys)
	}
	for {
		n, err := g.askNumber(ctx, key)
		if err == nil {
			if n == (outbox.Number{}) {
				if err := g.beginKey(key, from); err != nil {
					return err
				}
			}
			if _, there := g.job.known.LoadOrStore(key, n); !there {
				g.job.keys.Add(1)
			}
			return nil
		}
		if ctx.Err() == nil {
			g.told.logComplaint("holding back: the last number of a stream cannot be read from the input", "stream "+key, err)
		}
		select {
		case <-ctx.Done():
			return ErrHeldBack
		case <-g.doors.end:
			return ErrStopped
		case <-time.After(probeEvery):
		}
	}
}

// beginKey counts a new stream of a sender, or refuses it.
func (g *Gateway) beginKey(key, from string) error {
	if from != "" && !g.job.begun.admitKey(from, time.Now()) {
		return &Refused{Later: true, Why: fmt.Sprintf("stream %q is new, and %s has begun %d new streams within a minute, as many as it may: send it again later, or raise gateway.new_streams", key, from, g.job.begun.most)}
	}
	g.stats.newStreams.Add(1)
	return nil
}

// askNumber reads the number of a key's last message in the input; none without a
// message of the key, or for a message without a number.
func (g *Gateway) askNumber(ctx context.Context, key string) (outbox.Number, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	in, err := g.inputStream(ctx)
	if err != nil {
		return outbox.Number{}, err
	}
	last, err := in.GetLastMsgForSubject(ctx, wire.KeySubjects(g.cfg.Job, g.job.fullKey(key)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return outbox.Number{}, nil
	}
	if err != nil {
		return outbox.Number{}, natsclient.Plain(err)
	}
	h := wire.Header(last.Header)
	n := outbox.Number{Incarnation: wire.Get(h, wire.HeaderIncarnation)}
	if n.Seq, err = strconv.ParseUint(wire.Get(h, wire.HeaderSeq), 10, 64); err != nil {
		n.Incarnation = another
	}
	return n, nil
}

// another is no incarnation of a gateway: another producer has sent the key's last
// message, without a number.
const another = "-"

// inputStream is the job's input.
func (g *Gateway) inputStream(ctx context.Context) (jetstream.Stream, error) {
	g.job.mu.Lock()
	defer g.job.mu.Unlock()
	if g.job.in != nil {
		return g.job.in, nil
	}
	in, err := g.js.Stream(ctx, wire.InputStream(g.cfg.Job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("there is no NATS stream %s: start a worker of the job once, which creates the NATS stream, or check the job's name; for a job that reads another job's input (input.job), give that job", wire.InputStream(g.cfg.Job))
	}
	if err == nil {
		g.job.in = in
	}
	return in, err
}

// findInput waits for the job's input; the outbox may have numbers of this input. A stage that
// starts at the same time creates the input, so the first attempts are not reported.
func (g *Gateway) findInput(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		once, cancel := context.WithTimeout(ctx, askWait)
		in, err := g.inputStream(once)
		cancel()
		if err == nil {
			if err := g.out.SetInput(strconv.FormatInt(in.CachedInfo().Created.UnixNano(), 10)); err != nil {
				g.diskFailed(err)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.stats.held.Store(true)
		if attempt >= quietAttempts {
			g.told.logComplaint("holding back: the job's input is not found", "nats", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probeEvery):
		}
	}
}

// compareLeft compares the last numbers of the streams with messages left by the
// previous run, before their publication: the input may already have these messages,
// and later messages with numbers lost by the outbox; a republished message would then
// be the last.
func (g *Gateway) compareLeft(ctx context.Context) error {
	var all sync.WaitGroup
	room := make(chan struct{}, questions)
	for key := range g.streams {
		room <- struct{}{}
		all.Go(func() {
			_ = g.learnNumber(ctx, key, "") // no answer: ctx has ended
			<-room
		})
	}
	all.Wait()
	for _, s := range g.streams {
		if v, ok := g.job.known.Load(s.lane.Key); ok {
			there := v.(outbox.Number)
			g.lanes.SkipStored(s.lane, func(incarnation string, seq uint64) bool {
				return isUpTo(outbox.Number{Incarnation: incarnation, Seq: seq}, there)
			})
		}
		g.makeSure(s)
		g.lanes.Enqueue(s.lane)
	}
	return ctx.Err()
}

// splitIncarnation returns the family of an incarnation and its number. A gateway counts the
// incarnations of a stream (F, F.1, F.2): the later of two is known, even if the outbox has
// lost one. A new family begins if the last incarnation is unknown.
func splitIncarnation(incarnation string) (family string, n uint64) {
	if at := strings.LastIndexByte(incarnation, '.'); at > 0 {
		if n, err := strconv.ParseUint(incarnation[at+1:], 10, 64); err == nil {
			return incarnation[:at], n
		}
	}
	return incarnation, 0
}

func nextIncarnation(incarnation string) string {
	family, n := splitIncarnation(incarnation)
	return family + "." + strconv.FormatUint(n+1, 10)
}

// isUpTo reports whether a number of a stream is the number last, or certainly earlier.
func isUpTo(n, last outbox.Number) bool {
	family, of := splitIncarnation(n.Incarnation)
	lastFamily, lastOf := splitIncarnation(last.Incarnation)
	return family != "" && family == lastFamily && (of < lastOf || of == lastOf && n.Seq <= last.Seq)
}

// makeSure compares the last number of a stream with the input, before the first batch
// of this run.
//
// If the input is ahead, the outbox has lost its end, by a power loss or a damaged
// disk, and with it the messages that devices may resend: their samples may be doubled.
// If the input no longer has a message (max_age), the last number is unknown: lower
// numbers would be dropped as repeats. The last message may also belong to another
// producer with this key. In each case a new incarnation begins, which the stage flags
// as a gap. A stream whose messages wait is not compared if the outbox has all numbers:
// another producer may have sent while they waited. After two power losses, or a loss after
// a gap, the input may end with an incarnation that the outbox has lost too.
func (g *Gateway) makeSure(s *stream) {
	if s.sure {
		return
	}
	s.sure = true
	lane := s.lane
	v, ok := g.job.known.Load(lane.Key)
	if !ok {
		return
	}
	there, here := v.(outbox.Number), outbox.Number{Incarnation: lane.Incarnation, Seq: lane.Seq}
	switch {
	case isUpTo(there, here):
	case isUpTo(here, there):
		g.told.logComplaint("the outbox has lost its end: samples may be doubled; the gateway counts from 1 again, and predictions carry the flag gap", "stream "+lane.Key,
			fmt.Errorf("the outbox ends at number %d of %s, the input at number %d of %s", here.Seq, here.Incarnation, there.Seq, there.Incarnation))
		lane.Incarnation, lane.Seq = nextIncarnation(there.Incarnation), 0
	case there == (outbox.Number{}) && s.doubt:
		g.cfg.Log.Warn("the outbox may lack its end, after a power loss, and the input has no message of the stream any more: the gateway counts from 1 again, and predictions carry the flag gap", "stream", lane.Key)
		lane.Incarnation, lane.Seq = g.incarnation, 0
	case there == (outbox.Number{}) || lane.Waits() && !s.doubt:
	default:
		if lane.Incarnation != "" {
			g.cfg.Log.Warn("another producer has sent under this key: the gateway counts from 1 again, and predictions carry the flag gap", "stream", lane.Key)
		}
		lane.Incarnation, lane.Seq = g.incarnation, 0
	}
	if lane.Incarnation == "" {
		lane.Incarnation = g.incarnation
	}
}
