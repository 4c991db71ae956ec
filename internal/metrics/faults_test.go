package metrics

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/modbus"
	"github.com/eusn-stream/eusn-stream/internal/gateway/web"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

var recordFaults = flag.Bool("record-faults", false, "make the faults of TestFaults again, minutes, and write configs/prometheus/faults")

// slowEngine is an engine with slow batches.
type slowEngine struct {
	reservoir.Engine
	f *recording
}

func (e slowEngine) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	if e.f.slow.Load() {
		time.Sleep(5 * time.Millisecond) // for 24 samples at most
	}
	return e.Engine.Advance(inputs, runs, scores)
}

// faults has the cause of each alert, on a real healthy stage (w1, w2) or gateway (g1).
var faults = []struct {
	alert, about string
	minutes      int // duration of the fault
	make         func(f *recording)
	each         func(f *recording) // called in each minute of the fault
}{
	{"EusnDown", "the worker w2 ended, and w1 took its partitions", 8, func(f *recording) { f.stopTarget("w2") }, nil},
	{"EusnAllDown", "Prometheus lost its targets", 12, func(f *recording) {
		f.targets = slices.DeleteFunc(f.targets, func(t target) bool { return t.job == "eusn-stream" })
	}, nil},
	{"EusnNotReady", "the NATS server ended", 9, func(f *recording) { f.silent = true; f.rig.server.Close() }, nil},
	{"EusnPartitionStopped", "the worker was stopped; snapshots and input of partition 0 were removed; it was started again", 12, func(f *recording) {
		f.stops["w1"]()
		f.removeStart()
		f.startWorker("w1", false)
	}, nil},
	{"EusnSilence", "producers fell silent", 25, func(f *recording) { f.silent = true }, nil},
	{"EusnLagGrows", "an engine became slow, and more arrived", 26, func(f *recording) { f.slow.Store(true) }, func(f *recording) { f.publishFlood(2400) }},
	{"EusnSnapshotOld", "the bucket of snapshots refused what was stored", 12, func(f *recording) {
		f.changeStream("OBJ_EUSN-SNAP", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 })
	}, nil},
	{"EusnDeadLetters", "a producer sent what is no Arrow, three times", 20, func(f *recording) {
		for range 3 {
			f.rig.sendMessage("e", []byte("no Arrow"))
		}
	}, nil},
	{"EusnGaps", "a producer left out a number", 20, func(f *recording) {
		for _, n := range []string{"1", "3", "4", "5"} { // two may wait
			f.rig.publishSamples("c", []float32{0.1}, wire.HeaderSeq, n)
		}
	}, nil},
	{"EusnConsumers", "a reader created durable consumers of the output", 20, func(f *recording) {
		f.changeStream("EUSN-OUT", func(c *jetstream.StreamConfig) { c.MaxConsumers = 10 })
		for i := range 9 {
			if _, err := f.rig.js.CreateConsumer(f.Context(), "EUSN-OUT", jetstream.ConsumerConfig{Durable: fmt.Sprint("reader", i)}); err != nil {
				f.Fatal(err)
			}
		}
	}, nil},
	{"EusnUnlikeTraining", "a sensor of one stream gave values a hundred times too large", 20, nil, func(f *recording) { f.sendSequence("b", 30) }},
	{"EusnDuplicates", "a producer sent its last message again and again", 20, nil, func(f *recording) {
		for range 40 {
			f.resendLast("a")
		}
	}},
	{"EusnContradictions", "a producer began again at 1 under its old incarnation, with other samples", 20, func(f *recording) {
		f.seq["a"] = 0
		for range 150 { // many samples, because few would cause another alert
			f.sendSequence("a", 0.2)
		}
	}, nil},
	{"EusnInputLost", "the worker was stopped for a moment, and the input purged meanwhile", 20, func(f *recording) {
		f.stops["w1"]()
		f.sendSequence("a", 0.2)
		f.sendSequence("b", 0.2)
		f.purgeStream("EUSN-IN")
		f.startWorker("w1", true)
	}, nil},
	{"EusnSequencesAbandoned", "a producer sent under 3,000 names, more than the partitions remember", 20, func(f *recording) { f.publishNewNames(3000) }, nil},
	{"EusnNewStreams", "a producer sent under 1,500 names, which the partitions remember", 20, func(f *recording) { f.publishNewNames(1500) }, nil},
	{"EusnReplicaBehind", "the gauge was set by hand: a cluster whose replica stays behind takes minutes to make", 10, func(f *recording) {
		f.told["eusn_replicas_behind"] = 1
	}, nil},
	{"EusnCertificateExpires", "the gauge was set by hand: a certificate ends after years", 10, func(f *recording) {
		f.told["eusn_certificate_expires_seconds"] = 864000
	}, nil},
	{"EusnGatewayDown", "the gateway ended", 8, func(f *recording) { f.stopTarget("g1") }, nil},
	{"EusnGatewayHoldsBack", "the input of the gateway's job was full", 10, func(f *recording) {
		f.fill()
	}, nil},
	{"EusnGatewayRefuses", "a device posted to a topic that is no stream", 20, func(f *recording) { f.post("/v1/nothing/x") }, nil},
	{"EusnGatewayLoses", "a device of Modbus did not answer", 20, func(f *recording) { f.poll("127.0.0.1:1") }, nil},
}

// TestFaults: each fault fires its alert, and no other alert. The series were recorded from real
// faults (-record-faults records them again); promtool applies the rules to them.
func TestFaults(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		parts.Absent(t, "promtool", "%v (Debian: apt-get install prometheus)", err)
	}
	rules, err := os.ReadFile(filepath.Join(configs, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	files := map[string]bool{}
	for _, fault := range faults {
		files["faults/"+fault.alert+".yaml"] = true
		if *recordFaults {
			t.Run(fault.alert, func(t *testing.T) {
				f := newRecording(t, string(rules), fault.alert)
				f.advanceMinutes(healthyMinutes, f.publishMinute)
				if fault.make != nil {
					fault.make(f)
				}
				f.advanceMinutes(fault.minutes, func() {
					if !f.silent {
						f.publishMinute()
					}
					if fault.each != nil {
						fault.each(f)
					}
				})
				if err := os.WriteFile(filepath.Join(configs, "prometheus", "faults", fault.alert+".yaml"), f.promtoolTest(fault.alert, fault.about), 0o644); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	for _, alert := range want {
		if !files["faults/"+alert[1]+".yaml"] {
			t.Errorf("%s has no fault", alert[1])
		}
	}
	if len(files) != len(want) {
		t.Errorf("%d faults for %d alerts", len(files), len(want))
	}
	args := []string{"test", "rules"}
	for name := range files {
		text, err := os.ReadFile(filepath.Join(configs, "prometheus", name)) // otherwise the test cache would miss changes
		if alert := strings.TrimSuffix(filepath.Base(name), ".yaml"); err != nil || !strings.Contains(string(text), `[{labels: '{alertname="`+alert+`"}', value: 1}]`) {
			t.Errorf("%s does not want %s alone: %v", name, alert, err)
		}
		args = append(args, name)
	}
	c := exec.Command(promtool, args...)
	c.Dir = filepath.Join(configs, "prometheus")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// rangedModel returns testModel with training statistics.
func rangedModel(t *testing.T) *reservoir.Model {
	m := testModel(t)
	m.Training.Inputs = []reservoir.InputRange{{Values: 1, Min: -.5, Max: .5, LongestRun: 1}}
	return m
}

// startWorker runs a worker; with ready it waits until the worker is ready.
func (f *recording) startWorker(name string, ready bool) {
	f.Helper()
	began, done := make(chan struct{}), make(chan error, 1)
	counters := f.counters[name]
	if counters == nil {
		counters = new(pipeline.Counters)
		f.counters[name] = counters
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Partitions: 2, Shards: 1, RowBudget: 24, MaxStreams: 1000, Reorder: 2, SnapshotEvery: 30 * time.Second / f.timeFactor(), SnapshotMessages: 1 << 20, StopTimeout: 2 * time.Second},
			Model:  rangedModel(f.T),
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				e, err := cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
				return slowEngine{e, f}, err
			},
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return f.rig.server.Connect(name, nil) },
		},
		Counters: counters, Ready: func() { close(began) },
	}
	go func() { done <- s.Run(ctx) }()
	stopped := false
	f.stops[name] = func() {
		cancel()
		if !stopped {
			stopped = true
			if err := <-done; err != nil {
				f.Logf("%s ended with %v", name, err)
			}
		}
	}
	f.Cleanup(f.stops[name])
	if ready {
		<-began
		waitUntil(f.T, "readiness", func() bool { s := counters.Status(); return len(s.Unready()) == 0 })
	}
}

// startGateway runs a gateway with an input that may become full.
func (f *recording) startGateway() {
	f.Helper()
	nc, js := pipelinetest.Connect(f.T, pipelinetest.Server(f.T, natsserver.Options{}))
	in, err := js.CreateStream(f.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}, Discard: jetstream.DiscardNew,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.0.{{wildcard(1)}}"}})
	if err != nil {
		f.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	g, err := gateway.New(nc, gateway.Config{Channels: []string{"x"}, Decoder: value{}, Lines: value{}, Dir: f.TempDir(), Log: log})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	f.Cleanup(func() { cancel(); <-done })
	topics, err := gateway.ParseTopics("sensors/+")
	if err != nil {
		f.Fatal(err)
	}
	device, err := web.Listen(g, web.Options{Addr: "127.0.0.1:0", Topics: topics, MaxMessage: 1 << 10, Log: log})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(device.Close)
	port, err := Listen("127.0.0.1:0", Options{Gateway: g.Stats, Log: log})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { port.Close() })
	f.targets = append(f.targets, target{"eusn-gateway", "g1", port})
	f.stops["g1"] = cancel
	f.post = func(path string) {
		res, err := http.Post("http://"+device.Addr().String()+path, "text/plain", strings.NewReader("1"))
		if err != nil {
			f.Fatal(err)
		}
		res.Body.Close()
	}
	f.fill = func() {
		info, err := in.Info(f.Context())
		if err == nil {
			info.Config.MaxMsgs = int64(info.State.Msgs)
			_, err = js.UpdateStream(f.Context(), info.Config)
		}
		if err == nil {
			err = g.Take(f.Context(), &gateway.Message{Input: gateway.HTTP, Key: "device", Payload: []byte("1"), Done: func(error) {}})
		}
		if err != nil {
			f.Fatal(err)
		}
		f.full = true
		waitUntil(f.T, "the gateway to hold back", func() bool { return g.Stats().HoldingBack })
	}
	f.poll = func(addr string) {
		end, err := modbus.Follow(g, modbus.Options{Addr: addr, Registers: map[string]string{"pump/x": "holding:1:int16"}, Channels: []string{"x"}, Interval: f.tick / 4, Timeout: f.tick / 4, Log: log})
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(end)
	}
}

// publishFlood publishes n messages of one stream as fast as the server accepts them.
func (f *recording) publishFlood(n int) {
	f.Helper()
	data := f.encode(.1, .2, .3)
	for range n {
		if _, err := f.rig.js.PublishAsync("sensors.flood", data); err != nil {
			f.Fatal(err)
		}
	}
	<-f.rig.js.PublishAsyncComplete()
}

// publishNewNames publishes a message with each of n new names.
func (f *recording) publishNewNames(n int) {
	f.Helper()
	data := f.encode(.1, .2, .3)
	for i := range n {
		if _, err := f.rig.js.PublishAsync(fmt.Sprint("sensors.invented", i), data); err != nil {
			f.Fatal(err)
		}
	}
	<-f.rig.js.PublishAsyncComplete()
}

// purgeStream and changeStream make an operator's mistakes with a NATS stream.
func (f *recording) purgeStream(name string) {
	f.Helper()
	s, err := f.rig.js.Stream(f.Context(), name)
	if err == nil {
		err = s.Purge(f.Context())
	}
	if err != nil {
		f.Fatal(err)
	}
}

func (f *recording) changeStream(name string, change func(c *jetstream.StreamConfig)) {
	f.Helper()
	s, err := f.rig.js.Stream(f.Context(), name)
	if err == nil {
		c := s.CachedInfo().Config
		change(&c)
		_, err = f.rig.js.UpdateStream(f.Context(), c)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// removeStart removes the start data of partition 0.
func (f *recording) removeStart() {
	f.Helper()
	in, err := f.rig.js.Stream(f.Context(), "EUSN-IN")
	if err == nil {
		err = in.Purge(f.Context(), jetstream.WithPurgeSubject("eusn.in.0.*"))
	}
	if err != nil {
		f.Fatal(err)
	}
	store, err := f.rig.js.ObjectStore(f.Context(), "EUSN-SNAP")
	if err != nil {
		f.Fatal(err)
	}
	all, err := store.List(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range all {
		if strings.HasPrefix(o.Name, "p0.") {
			if err := store.Delete(f.Context(), o.Name); err != nil {
				f.Fatal(err)
			}
		}
	}
}

// resendLast resends a key's last message.
func (f *recording) resendLast(key string) {
	f.Helper()
	m := f.last[key]
	f.rig.sendMessage(key, bytes.Clone(m.data), m.header...)
}

// sendSequence publishes a sequence of three samples with a key's next number.
func (f *recording) sendSequence(key string, x float32) {
	f.Helper()
	f.seq[key]++
	n := f.seq[key]
	header := []string{wire.HeaderSeq, fmt.Sprint(n), wire.HeaderEnd, "1"}
	data := f.encode(x, x/2, x-float32(n%7)/100)
	f.last[key] = message{data, header}
	f.rig.sendMessage(key, data, header...)
}
