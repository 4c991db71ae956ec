package live_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// runSize is the size of a test with kills: devices x samples of each x kills, from the
// environment, such as EUSN_GATEWAY_RUN=200x5000x30 (make gateway-run). Then dir is
// kept, for inspection.
func runSize(t *testing.T, name string, devices, each, kills int) (d, e, k int, dir string) {
	t.Helper()
	size := os.Getenv(name)
	if size == "" {
		return devices, each, kills, ""
	}
	if _, err := fmt.Sscanf(size, "%dx%dx%d", &d, &e, &k); err != nil {
		t.Fatalf("%s=%q, want devices x samples x kills, such as 200x5000x30: %v", name, size, err)
	}
	dir, err := os.MkdirTemp("", "gateway-run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("everything is kept in %s", dir)
	return d, e, k, dir
}

// TestGatewayRun: Debian's mosquitto and a mosquitto_pub for each device, the gateway
// as mosquitto's client, and the stage on a NATS server, each in a separate process.
// All four are killed (kill -9) in turn, and the input is full for a while. No sample
// acknowledged by mosquitto is lost or doubled, and the predictions have the bits of an
// offline evaluation of the sent samples.
//
// A sample counts as acknowledged when mosquitto_pub has its PUBACK. mosquitto sends
// the PUBACK before the message is on the disk, so a killed mosquitto loses messages
// acknowledged since its last save. To test only the gateway, devices pause before
// mosquitto is killed, and mosquitto saves (SIGUSR1). Undelivered messages are
// delivered after its restart.
func TestGatewayRun(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds to begin again, -short was given")
	}
	mosquitto, err := exec.LookPath("mosquitto")
	if err != nil {
		mosquitto, err = exec.LookPath("/usr/sbin/mosquitto")
	}
	_, pub := exec.LookPath("mosquitto_pub")
	if _, buf := exec.LookPath("stdbuf"); err != nil || pub != nil || buf != nil {
		parts.Absent(t, "mosquitto", "no mosquitto, mosquitto_pub or stdbuf here: apt install mosquitto mosquitto-clients coreutils")
	}
	if os.Getenv("EUSN_GATEWAY_RUN") == "" {
		t.Parallel()
	}
	devices, each, kills, dir := runSize(t, "EUSN_GATEWAY_RUN", 8, 200, 4)
	p := newPlant(t, dir)
	port := planttest.FreePort(t)
	p.mosquitto(mosquitto, port)
	p.gateway("--broker", "tcp://127.0.0.1:"+port)
	p.Await("a subscription", func() bool { return p.HasLogged("gateway", "connected to the broker") })

	all := makeSent(devices, each)
	f := &fleet{p: p, port: port, all: all, quick: os.Getenv("EUSN_GATEWAY_RUN") == "", acked: make([]int, devices)}
	began := time.Now()
	f.resume()
	total, killed := devices*each, map[string]int{}
	for k := range kills {
		f.reach(total * (k + 1) / (kills + 2))
		who := []string{"gateway", "stage", "nats", "mosquitto"}[k%4]
		killed[who]++
		switch {
		case who == "mosquitto":
			f.killBroker(k%8 == 3)
		case k == kills/8*4:
			f.fullInput(time.Duration(kills)*time.Second/3, true)
		default:
			p.Services[who].Kill(false)
		}
	}
	f.reach(total * (kills + 1) / (kills + 2))
	f.fullInput(time.Second, false)
	f.reach(total)
	f.pause()
	t.Logf("all acknowledged after %v; killed: %v; %d times a device ended with lines in doubt", time.Since(began).Round(time.Second), killed, f.doubt)
	p.comparePredictions(all)
}

// sent is the data of a device: lines of JSON, and their values.
type sent struct {
	key   string
	lines []string
	x     []float32
}

// makeSent makes n samples of each device: no two of a device are alike.
func makeSent(devices, n int) []sent {
	all := make([]sent, devices)
	text := func(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }
	for d := range all {
		rng := rand.New(rand.NewPCG(uint64(d), 1))
		s := &all[d]
		s.key = fmt.Sprint("A/", d)
		for i := range n {
			x, y := float32(math.Sin(float64(i)/float64(2+d%5))+rng.NormFloat64()/10), float32(i)/float32(n)*2-1
			s.lines = append(s.lines, `{"c0": `+text(x)+`, "c1": `+text(y)+`}`)
			s.x = append(s.x, x, y)
		}
	}
	return all
}

// comparePredictions reads the input and the predictions, and compares them with the sent data.
func (p *plant) comparePredictions(all []sent) {
	t := p.T
	t.Helper()
	total := 0
	for _, s := range all {
		total += len(s.lines)
	}
	for last, since := -1, time.Now(); last < total/planttest.Length; time.Sleep(200 * time.Millisecond) {
		if n := count(liveAnswers(t, p.URL)); n > last {
			last, since = n, time.Now()
		} else if time.Since(since) > planttest.Quiet {
			t.Fatalf("%d predictions, want %d, and no more for %v; the logs are in %s", n, total/planttest.Length, planttest.Quiet, p.Dir)
		}
	}
	time.Sleep(time.Second) // for doubled samples
	got := map[string][]float32{}
	readInput(t, p.URL, func(key string, b *codec.Batch) { got[key] = append(got[key], b.X...) })
	lost, doubled, disorder := 0, 0, 0
	for _, s := range all {
		seen := map[[2]float32]int{}
		for row := range slices.Chunk(got[s.key], 2) {
			seen[[2]float32(row)]++
		}
		for row := range slices.Chunk(s.x, 2) {
			n := seen[[2]float32(row)]
			lost, doubled = lost+max(0, 1-n), doubled+max(0, n-1)
		}
		if !slices.Equal(got[s.key], s.x) {
			disorder++
		}
	}
	live, want := liveAnswers(t, p.URL), p.evaluate(all)
	same := 0
	for key, w := range want {
		for i, text := range w {
			if i < len(live[key]) && live[key][i] == text {
				same++
			}
		}
	}
	t.Logf("%d samples of %d devices: %d lost, %d doubled, %d devices not as sent; %d of %d predictions equal the offline evaluation", total, len(all), lost, doubled, disorder, same, count(want))
	if lost+doubled+disorder > 0 || same != count(want) || count(live) != same {
		t.Errorf("%d predictions, want %d, all equal, and each sample once, in order; the logs are in %s", count(live), count(want), p.Dir)
	}
}

// evaluate returns an offline evaluation of the sent samples.
func (p *plant) evaluate(all []sent) map[string][]string {
	p.T.Helper()
	m, err := reservoir.Load(p.Model)
	if err != nil {
		p.T.Fatal(err)
	}
	d := &archive.Dataset{Name: "sent", Channels: m.Channels, Classes: m.Readouts[0].Classes}
	for _, s := range all {
		d.Series = append(d.Series, archive.Series{ID: s.key, Split: archive.Test, Label: -1, Values: s.x})
	}
	ev, err := offline.Evaluate(p.T.Context(), m, d, offline.EvaluateOptions{}, nil)
	if err != nil {
		p.T.Fatal(err)
	}
	want := map[string][]string{}
	for _, w := range ev.Predictions {
		want[w.ID] = append(want[w.ID], pipelinetest.PredictionText(int32(w.Class), w.Flags, w.Scores, w.Probability))
	}
	return want
}

func liveAnswers(t *testing.T, url string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		return consumer.Read(t.Context(), js, "eusn", consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
			for _, p := range o.Predictions {
				all[p.Stream] = append(all[p.Stream], pipelinetest.PredictionText(p.Class, p.Flags, p.Scores, p.Probability))
			}
			return nil
		})
	})
	return all
}

// readInput reads the job's input, without messages that the stage drops as repeats.
func readInput(t *testing.T, url string, use func(key string, b *codec.Batch)) {
	t.Helper()
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"c0", "c1"}})
	if err != nil {
		t.Fatal(err)
	}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		in, err := js.Stream(t.Context(), "EUSN-IN")
		if err != nil || in.CachedInfo().State.Msgs == 0 {
			return err
		}
		c, err := in.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		all, err := c.Messages()
		if err != nil {
			return err
		}
		defer all.Stop()
		seen := map[string]bool{}
		for pending := uint64(1); pending > 0; {
			m, err := all.Next(jetstream.NextMaxWait(planttest.Quiet))
			if err != nil {
				return err
			}
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			pending = meta.NumPending
			id := m.Subject() + " " + m.Headers().Get("Eusn-Incarnation") + " " + m.Headers().Get("Eusn-Seq")
			if seen[id] {
				continue
			}
			seen[id] = true
			var b codec.Batch
			if err := dec.Decode(m.Data(), &b); err != nil {
				return errors.Join(err, fmt.Errorf("message %d", meta.Sequence.Stream))
			}
			use(strings.SplitN(m.Subject(), ".", 4)[3], &b)
		}
		return nil
	})
}
