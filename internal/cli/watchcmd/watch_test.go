package watchcmd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// openHook lets everybody in.
type openHook struct{ mochi.HookBase }

func (*openHook) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}
func (*openHook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }
func (*openHook) OnACLCheck(*mochi.Client, string, bool) bool              { return true }

// startBroker starts an MQTT broker, and returns its address.
func startBroker(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	for _, err := range []error{s.AddHook(new(openHook), nil), s.AddListener(listeners.NewNet("tcp", l)), s.Serve()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// publish publishes the samples of a plant in real time until the test ends. broken decides
// whether the fault has begun.
func (p plant) publish(t *testing.T, addr, prefix string, broken *atomic.Bool) {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID("plant" + prefix).SetMessageChannelDepth(10000))
	if token := c.Connect(); !token.WaitTimeout(pipelinetest.Patience) || token.Error() != nil {
		t.Fatal("the plant cannot connect", token.Error())
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait(); c.Disconnect(100) })
	machines := make([]*simulated, p.machines)
	for k := range machines {
		machines[k] = p.machine(k)
	}
	running.Go(func() {
		tick := time.NewTicker(time.Duration(float64(p.rows) / p.rate * 1e9))
		defer tick.Stop()
		for {
			for k, m := range machines {
				p.send(c, fmt.Sprintf("%s/m%02d", prefix, k), m, broken.Load())
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// send publishes the next samples of a machine.
func (p plant) send(c paho.Client, topic string, m *simulated, broken bool) {
	columns := make([][]string, p.channels)
	for range p.rows {
		for i, v := range m.sample(broken) {
			columns[i] = append(columns[i], number(v))
		}
	}
	var fields []string
	for i, column := range columns {
		switch p.form {
		case "values":
			c.Publish(topic+"/"+p.channel(i), 0, false, column[0])
		case "lists":
			fields = append(fields, fmt.Sprintf("%q: [%s]", p.channel(i), strings.Join(column, ", ")))
		default:
			fields = append(fields, fmt.Sprintf("%q: %s", p.channel(i), column[0]))
		}
	}
	if len(fields) > 0 {
		c.Publish(topic, 0, false, "{"+strings.Join(fields, ", ")+"}")
	}
}

// watching is a running command. Its output is complete after end.
type watching struct {
	out, errOut clitest.LockedBuffer
	cancel      context.CancelFunc
	code        chan int
}

func startWatch(t *testing.T, args ...string) *watching {
	w := &watching{code: make(chan int, 1)}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		w.code <- root.Run(ctx, append([]string{"watch", "--json", "--port", "-1", "--metrics-listen", "127.0.0.1:0"}, args...), io.Writer(&w.out), &w.errOut)
	}()
	return w
}

// await waits for a text in the lines on standard output.
func (w *watching) await(t *testing.T, text string, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); !strings.Contains(w.out.String(), text); time.Sleep(20 * time.Millisecond) {
		select {
		case code := <-w.code:
			t.Fatalf("the command has ended with %d before %q\n%s", code, text, w.errOut.String())
		default:
		}
		if time.Now().After(end) {
			w.cancel()
			t.Fatalf("no %q within %v\n%s\n%s", text, limit, w.out.String(), w.errOut.String())
		}
	}
}

func (w *watching) end(t *testing.T) []map[string]any {
	t.Helper()
	w.cancel()
	if code := <-w.code; code != cli.ExitOK {
		t.Fatalf("exit code %d\n%s", code, w.errOut.String())
	}
	return clitest.Result{Out: w.out.String()}.Lines(t)
}

// From a broker to verdicts: the command finds the machines, learns, saves, and finds a fault.
// The second start learns nothing.
func TestWatchBroker(t *testing.T) {
	t.Parallel()
	p := plant{"test", 8, 3, 256, .3, 0, "lists", 32, "level", 5}
	addr, dir := startBroker(t), filepath.Join(t.TempDir(), "plant")
	var broken atomic.Bool
	p.publish(t, addr, "hall", &broken)
	plant{"other", 1, 1, 5, .3, 0, "values", 1, "level", 1}.publish(t, addr, "hall/other", &broken)
	w := startWatch(t, "mqtt://"+addr+"/hall/#", "--learn", "5s", "--save", dir)
	w.await(t, `"verdict"`, pipelinetest.Patience)
	broken.Store(true)
	w.await(t, `"stream":"m00","class":"novel"`, pipelinetest.Patience)
	found := false
	for _, e := range w.end(t) {
		if e["event"] == "found" {
			found = true
			k := e["kinds"].([]any)
			if command := k[1].(map[string]any)["command"]; command != fmt.Sprintf("eusn-stream watch 'mqtt://%s/hall/#' --kind 2 --save %s-kind2 --learn 5s", addr, dir) {
				t.Errorf("the command for the other kind is %v", command)
			}
			if first := k[0].(map[string]any); len(k) != 2 || len(first["machines"].([]any)) != 8 || first["topics"] != "hall/+" || len(first["channels"].([]any)) != 3 {
				t.Errorf("found %v", e)
			}
		}
		if e["event"] == nil && strings.HasPrefix(fmt.Sprint(e["stream"]), "other") {
			t.Errorf("a prediction of a machine of another kind: %v", e)
		}
	}
	if !found {
		t.Error("no event found")
	}
	clitest.Must(t, "config", "check", filepath.Join(dir, "eusn-stream.yaml"))
	again := startWatch(t, "mqtt://"+addr+"/hall/#", "--learn", "5s", "--save", dir)
	again.await(t, `"class":"novel"`, pipelinetest.Patience)
	for _, e := range again.end(t) {
		if e["event"] == "found" || e["event"] == "saved" {
			t.Errorf("the second start has learned: %v", e)
		}
	}
}

// Machines that are off are not learned, and an interrupted learning saves nothing.
func TestWatchLacks(t *testing.T) {
	t.Parallel()
	addr, dir := startBroker(t), filepath.Join(t.TempDir(), "plant")
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID("off"))
	if token := c.Connect(); !token.WaitTimeout(pipelinetest.Patience) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer c.Disconnect(100)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			c.Publish("hall/p1", 0, false, fmt.Sprintf(`{"x": 1, "count": %d}`, i))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var out bytes.Buffer
	errOut := &clitest.StopAt{Text: "all channels are constant", Cancel: stop, W: new(clitest.LockedBuffer)}
	code := root.Run(ctx, []string{"watch", "mqtt://" + addr + "/#", "--learn", "2s", "--save", dir, "--port", "-1", "--metrics-listen", ""}, &out, errOut)
	text := errOut.W.(*clitest.LockedBuffer).String()
	if code != cli.ExitInterrupted || !strings.Contains(text, "nothing was saved") || !strings.Contains(text, "count    D") {
		t.Errorf("exit code %d\n%s", code, text)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("saved %q", left)
	}
}

// Tables with slow samples: the default time to learn has less than one sample, and enough of the tables is learned.
func TestWatchSlowTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("time,temperature\n")
	for i := range 1200 {
		v := rand.NormFloat64()
		if i >= 1000 {
			v += 20
		}
		fmt.Fprintf(&b, "%s,%.4f\n", time.Unix(1_700_000_000+300*int64(i), 0).UTC().Format(time.RFC3339), v)
	}
	w := startWatch(t, clitest.Write(t, filepath.Join(dir, "oven.csv"), b.String()), "--save", filepath.Join(dir, "saved"))
	w.await(t, `"rule":"unlike-healthy"`, pipelinetest.Patience)
	w.end(t)
	if n := strings.Count(w.errOut.String(), "not enough yet"); n != 1 || !strings.Contains(w.errOut.String(), "windows of 2h30m") {
		t.Errorf("%d reports of missing samples, want one with the time of a window\n%s", n, w.errOut.String())
	}
}
