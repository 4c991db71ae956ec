package loop_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

const (
	loopPartitions = planttest.Partitions
	loopStreams    = 24
	loopLength     = 40 // samples of a sequence
	loopPieces     = 4  // pieces of a sequence, sent for all streams in turn: nearly all sequences are open
	loopRound      = loopPieces * loopStreams
	loopStep       = int64(time.Millisecond)
	loopPlain      = "plain" // a job of the same input, without promotions
	// loopLoad is the load as a share of the stage's throughput: slightly more than the
	// promised half. Without EUSN_LOOP_RUN it is at most loopGate samples a second: the
	// test checks the same, but in seconds.
	loopLoad = 0.55
	loopGate = 4000
)

// loop is a job with two workers, its recorder and its load.
type loop struct {
	*planttest.Plant
	whole bool   // as set by EUSN_LOOP_RUN, not the short form
	conf  string // of the workers
	rng   *rand.Rand

	client *client.Client
	pieces atomic.Int64 // passed to the client
	stop   chan struct{}
	load   sync.WaitGroup

	labeled int // labeled sequences of each stream
	killed  []string
	learner int               // pending kills
	learned []string          // fingerprints, the job's first readout before all
	files   map[string]string // their models
	newest  time.Time         // when the newest was learned
}

// TestLoopRun: the loop from a label to a promotion and back, under load. All parts are
// separate processes, and all are killed (kill -9) in between: workers, NATS server,
// recorder, learner. Afterwards: each sent sequence has one prediction; its readout
// follows from the promotions in the log; its scores equal an offline replay of the log
// with that readout; the states equal those of a second job on the same input without
// promotions; the recording equals the log.
//
// EUSN_LOOP_RUN=promotions x kills (make loop-run) is the whole run, with at least half
// of the stage's throughput as load.
func TestLoopRun(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds to begin again, -short was given")
	}
	promotions, kills, dir := 4, 5, ""
	size := os.Getenv("EUSN_LOOP_RUN")
	if size == "" {
		t.Parallel()
	} else {
		if _, err := fmt.Sscanf(size, "%dx%d", &promotions, &kills); err != nil {
			t.Fatalf("EUSN_LOOP_RUN=%q, want promotions x kills, such as 20x24: %v", size, err)
		}
		var err error
		if dir, err = os.MkdirTemp("", "loop-run-"); err != nil {
			t.Fatal(err)
		}
		t.Logf("everything is kept in %s", dir)
	}
	l := newLoop(t, dir, size != "")
	most := l.throughput()
	rate := loopLoad * most
	if !l.whole {
		rate = min(rate, loopGate)
	}
	began, before := time.Now(), l.sequences()
	l.load.Go(func() { l.sendSamples(rate) })
	for i := range promotions {
		l.round(i, kills*(i+1)/promotions-kills*i/promotions)
	}
	close(l.stop)
	l.load.Wait()
	took := time.Since(began)
	got := float64((l.sequences()-before)*loopLength) / took.Seconds()
	l.predicted()
	t.Logf("throughput %.0f samples/s; under load for %v: %.0f samples/s, %.0f %%, the last prediction %v later; killed: %v",
		most, took.Round(time.Second), got, 100*got/most, (time.Since(began) - took).Round(100*time.Millisecond), l.killed)
	if l.whole && got < most/2 {
		t.Errorf("the load was %.0f %% of the throughput, want at least 50 %%", 100*got/most)
	}
	l.compareWithLog(promotions)
}

func newLoop(t *testing.T, dir string, whole bool) *loop {
	t.Helper()
	l := &loop{Plant: planttest.NewEmpty(t, dir), whole: whole, rng: rand.New(rand.NewPCG(18, 20)), stop: make(chan struct{}), files: map[string]string{}}
	dir = l.Dir
	network := []string{"--members", "2", "--units", "8"}
	if whole {
		network = []string{"--members", "4", "--units", "300", "--features", "last"}
	}
	var few strings.Builder // the first model has little training data
	few.WriteString("stream,time,end,c0,c1,label\n")
	for q := range 6 {
		it := loopItem(q%3, q)
		for i := range loopLength {
			fmt.Fprintf(&few, "s%d,%d,%t,%g,%g,%s\n", q, it.Times[i], i == loopLength-1, it.X[2*i], it.X[2*i+1], loopClass(q%3, q))
		}
	}
	archive := filepath.Join(dir, "few.parquet")
	clitest.Must(t, "import", clitest.Write(t, filepath.Join(dir, "few.csv"), few.String()), "--output", archive)
	clitest.Must(t, append([]string{"train", archive, "--output", l.Model}, network...)...)
	l.conf = clitest.Write(t, filepath.Join(dir, "stage.yaml"), "stage:\n  lease: 2s\n  snapshot_every: 4s\n")
	l.StartServer()
	for w := range 2 {
		l.KeepProgram(fmt.Sprint("worker-", w), l.runCommand()...)
	}
	l.KeepProgram("recorder", "record", "--model", l.Model, "--nats-url", l.URL, "--output", filepath.Join(dir, "recording"))
	var err error
	l.client, err = client.Connect(t.Context(), client.Options{URL: l.URL, Channels: []string{"c0", "c1"}, Rows: loopLength, Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l.client.Close(ctx)
	})
	l.Await("the job's first readout in its registry", func() bool {
		r := l.exec("model", "list")
		if fields := strings.Fields(r.Out); r.Code == 0 && len(fields) > 0 {
			l.learned = fields[:1]
		}
		return len(l.learned) > 0
	})
	l.files[l.learned[0]] = l.Model
	return l
}

// runCommand is the command of a worker.
func (l *loop) runCommand(more ...string) []string {
	return append([]string{"run", "-c", l.conf, "--model", l.Model, "--nats-url", l.URL, "--partitions", fmt.Sprint(loopPartitions)}, more...)
}

// exec runs a command of the program on the job.
func (l *loop) exec(args ...string) clitest.Result {
	return clitest.Exec(l.T, l.T.Context(), append(args, "--nats-url", l.URL)...)
}

func loopName(stream int) string { return fmt.Sprint("m", stream) }

// loopClass is the class of a sequence.
func loopClass(stream, q int) string { return []string{"fast", "slow", "odd"}[(stream+q/3)%3] }

// loopItem is sequence q of a stream.
func loopItem(stream, q int) producer.Item {
	rng := rand.New(rand.NewPCG(uint64(stream), uint64(q)))
	step := map[string]float64{"fast": .6, "slow": .45, "odd": .9}[loopClass(stream, q)]
	it := producer.Item{Stream: loopName(stream), End: true}
	phase := 6 * rng.Float64()
	for i := range loopLength {
		x := step*float64(i) + phase
		it.X = append(it.X, float32(math.Sin(x)+.4*rng.NormFloat64()), float32(math.Cos(x)+.4*rng.NormFloat64()))
		it.Times = append(it.Times, int64(1_700_000_000_000_000_000)+int64(q*loopLength+i)*loopStep)
	}
	return it
}

// sequences is how many the client was given whole.
func (l *loop) sequences() int { return int(l.pieces.Load()) / loopRound * loopStreams }

// giveRound sends a round: one sequence of every stream, piece by piece, in the given time.
func (l *loop) giveRound(within time.Duration) {
	began := time.Now()
	for n := range loopRound {
		it, piece := loopItem(n%loopStreams, int(l.pieces.Load())/loopRound), n/loopStreams
		from, to := piece*loopLength/loopPieces, (piece+1)*loopLength/loopPieces
		it.X, it.Times, it.End = it.X[2*from:2*to], it.Times[from:to], to == loopLength
		if err := l.client.Publish(l.T.Context(), client.Samples{Stream: it.Stream, X: it.X, Times: it.Times, End: it.End}); err != nil {
			l.T.Error(err)
		}
		l.pieces.Add(1)
		time.Sleep(time.Until(began.Add(within * time.Duration(n+1) / loopRound)))
	}
}

// sendSamples sends samples at a rate, until the load ends. After an outage of the server it
// is faster until it has caught up.
func (l *loop) sendSamples(rate float64) {
	each := time.Duration(loopStreams * loopLength / rate * float64(time.Second))
	for due := time.Now().Add(each); ; due = due.Add(each) {
		select {
		case <-l.stop:
			return
		default:
			l.giveRound(time.Until(due))
		}
	}
}

// throughput measures how many samples a second the two workers process, while the
// recorder records: from a burst of a few seconds.
func (l *loop) throughput() float64 {
	for n := 20; ; n *= 4 {
		began := time.Now()
		for range n {
			l.giveRound(0)
		}
		l.predicted()
		if took := time.Since(began).Seconds(); took > 4 || !l.whole && n > 20 {
			return float64(n*loopStreams*loopLength) / took
		}
	}
}

// predicted waits until the job has predicted every sent sequence.
func (l *loop) predicted() {
	l.T.Helper()
	if err := l.client.Flush(l.T.Context()); err != nil {
		l.T.Fatal(err)
	}
	l.predictedBy("eusn")
}

// predictedBy waits until a job has predicted every sequence of the input.
func (l *loop) predictedBy(job string) {
	l.T.Helper()
	want := l.sequences()
	for made, last, since := 0, -1, time.Now(); made < want; time.Sleep(20 * time.Millisecond) {
		if made = l.CountPredictions(job); made > last {
			last, since = made, time.Now()
		} else if time.Since(since) > planttest.Quiet/2 {
			l.T.Fatalf("%d predictions, want %d, and no more for %v; the logs are in %s", made, want, planttest.Quiet/2, l.Dir)
		}
	}
}

// askUntil asks the server, which may be killed at the moment, until it answers.
func (l *loop) askUntil(what string, ask func(ctx context.Context) error) {
	l.T.Helper()
	l.Await(what, func() bool {
		ctx, cancel := context.WithTimeout(l.T.Context(), 5*time.Second)
		defer cancel()
		return ask(ctx) == nil
	})
}

// round labels new data, sometimes trains, and changes the active readout: the new, the
// previous, or an older readout. Processes are killed the given number of times
// meanwhile.
func (l *loop) round(i, kills int) {
	l.T.Helper()
	for range kills {
		l.killProcess([]string{"worker-0", "nats", "learner", "worker-1", "recorder"}[len(l.killed)%5])
	}
	l.labelNew()
	switch i % 5 {
	case 0:
		l.makePromotion("promote", l.learn())
	case 1, 3:
		l.makePromotion("rollback", "")
	default:
		l.makePromotion("promote", l.learned[l.rng.IntN(len(l.learned))])
	}
}

// killProcess kills a process within the next second; the learner, at its next run.
func (l *loop) killProcess(who string) {
	l.killed = append(l.killed, who)
	if who == "learner" {
		l.learner++
		return
	}
	s := l.Services[who]
	time.AfterFunc(time.Duration(l.rng.IntN(1000))*time.Millisecond, func() { s.Kill(false) })
}

// labelNew labels 30 % of the new sequences; in the short form, at most a few, so that
// training is fast.
func (l *loop) labelNew() {
	l.T.Helper()
	from, to := l.labeled, l.sequences()/loopStreams
	l.labeled = to
	if !l.whole {
		to = min(to, from+10)
	}
	for s := range loopStreams {
		for q := from; q < to; q++ {
			if (7*s+q)%10 >= 3 {
				continue
			}
			at := loopItem(s, q).Times[0]
			one := labels.Label{Stream: loopName(s), From: at, To: at + loopLength*loopStep, Class: loopClass(s, q), Who: "anna", When: time.Now()}
			l.askUntil("a label", func(ctx context.Context) error {
				_, err := labels.Add(ctx, l.JS, "eusn", one)
				return err
			})
		}
	}
}

// learn fits a readout to all labels, publishes it, and returns its fingerprint. The
// learner is killed first, if due.
func (l *loop) learn() string {
	t := l.T
	t.Helper()
	file := filepath.Join(l.Dir, fmt.Sprintf("learned-%d", len(l.learned)))
	learner := func() *exec.Cmd {
		cmd := planttest.Command("learn", "--model", l.Model, "--store", filepath.Join(l.Dir, "features"), "--output", file, "--progress", "none", "--nats-url", l.URL)
		return cmd
	}
	for ; l.learner > 0; l.learner-- {
		cmd := learner()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(50+l.rng.IntN(400)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
	}
	var text []byte
	l.Await("the learner", func() bool {
		var err error
		if text, err = learner().CombinedOutput(); err != nil {
			t.Logf("learn: %v: %s", err, text)
		}
		return err == nil
	})
	l.newest = time.Now()
	print := ""
	l.Await("a published readout", func() bool {
		r := l.exec("model", "publish", file, "--who", "anna")
		print = strings.TrimSpace(r.Out)
		return r.Code == 0
	})
	l.files[print] = file
	l.learned = append(l.learned, print)
	return print
}

// promoted is the number of the job's newest promotion.
func (l *loop) promoted() (number uint64) {
	l.T.Helper()
	l.askUntil("the job's promotions", func(ctx context.Context) error {
		all, err := operate.PromotionsOf(ctx, l.JS, "eusn")
		number = all.Newest().Number
		return err
	})
	return number
}

// makePromotion makes a promotion or a rollback. An already active readout is replaced by
// another.
func (l *loop) makePromotion(command, print string) {
	l.T.Helper()
	before := l.promoted()
	l.Await("a promotion", func() bool {
		args := []string{"model", command, "--who", "anna"}
		if print != "" {
			args = append(args, print)
		}
		if before%4 == 3 {
			args = append(args, "--now")
		}
		if r := l.exec(args...); strings.Contains(r.ErrOut, operate.ErrActive.Error()) {
			print = l.learned[l.rng.IntN(len(l.learned))]
		}
		return l.promoted() > before
	})
}
