package client_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// roleVariable selects the role of the test binary: EUSN_CLIENT_TEST makes it
// the server or the client that TestKills kills.
const roleVariable = "EUSN_CLIENT_TEST"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "server":
		err = beServer(os.Args[1], os.Args[2])
	case "client":
		err = beClient(os.Args[1], os.Args[2:])
	default:
		err = fmt.Errorf("%s=%s", roleVariable, role)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func beServer(dir, port string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := natsserver.Start(context.Background(), natsserver.Options{Dir: dir, Port: n})
	if err != nil {
		return err
	}
	nc, err := s.Connect("test", nil)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
		Name: "EUSN-IN", Subjects: []string{"sensors.*"}, Discard: jetstream.DiscardNew, Duplicates: time.Second,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.{{partition(4,1)}}.{{wildcard(1)}}"},
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// beClient publishes the samples of the streams s0, s1, ... from the positions
// in from, without end, and prints the stored samples.
func beClient(url string, from []string) error {
	ctx := context.Background()
	var out sync.Mutex
	c, err := client.Connect(ctx, client.Options{
		URL: url, Channels: []string{"n"}, Rows: 7, Latency: 3 * time.Millisecond, Buffer: 100, Resume: true,
		Stored: func(stream string, samples int) {
			out.Lock()
			defer out.Unlock()
			fmt.Println("stored", stream, samples)
		},
	})
	if err != nil {
		return err
	}
	next := make([]int, len(from))
	for i, text := range from {
		if next[i], err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	for round := 0; ; round++ {
		for i := range next {
			n := 1 + (round+i)%5
			s := client.Samples{Stream: fmt.Sprint("s", i)}
			for range n {
				next[i]++
				s.X, s.Times = append(s.X, float32(next[i])), append(s.Times, int64(next[i]))
			}
			if err := c.Publish(ctx, s); err != nil {
				return err
			}
		}
	}
}

// process starts this binary in a role, and returns its printed lines.
func process(t *testing.T, role string, args ...string) (kill func(), lines *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	_, pipe := parts.StartProgram(t, cmd)
	return sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() }), bufio.NewScanner(pipe)
}

// TestKills: samples reported as stored are in the input, each once and in
// order, however often client and server are killed. The server remembers the
// client's messages for only one second, as after a long failure.
func TestKills(t *testing.T) {
	const streams, kills = 5, 6
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	url, dir := "nats://127.0.0.1:"+port, filepath.Join(t.TempDir(), "data")
	startServer := func() func() {
		kill, lines := process(t, "server", dir, port)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("the server says %q", lines.Text())
		}
		return kill
	}
	killServer := startServer()
	stored := make([]int, streams) // as reported by the client
	for round := range kills {
		args := []string{url}
		for _, n := range stored {
			args = append(args, fmt.Sprint(max(0, n-9*round))) // resends some samples
		}
		killClient, lines := process(t, "client", args...)
		first, heard, serverDies := 0, 0, round%2 == 1
		for lines.Scan() {
			var i, n int
			if _, err := fmt.Sscanf(lines.Text(), "stored s%d %d", &i, &n); err != nil || i >= streams {
				t.Fatalf("the client says %q", lines.Text())
			}
			stored[i] += n
			if heard++; heard == 50+20*round && serverDies {
				killServer()
				killServer, first = startServer(), heard
			}
			if !serverDies && heard == 60+20*round || serverDies && first > 0 && heard == first+60 {
				break
			}
		}
		killClient()
		for lines.Scan() { // printed before its end
			var i, n int
			if _, err := fmt.Sscanf(lines.Text(), "stored s%d %d", &i, &n); err == nil {
				stored[i] += n
			}
		}
		// The next client skips samples that were stored but not reported: so
		// the test continues from the count in the input.
		for key, n := range readInput(t, url) {
			i, _ := strconv.Atoi(strings.TrimPrefix(key, "s"))
			if n < stored[i] {
				t.Fatalf("round %d: stream %s has %d samples, the client was told of %d", round, key, n, stored[i])
			}
			stored[i] = n
		}
	}
	if n := slices.Min(stored); n < 100 {
		t.Errorf("only %d samples of a stream: too few to see anything", n)
	}
}

// readInput checks that the samples of each stream are 1, 2, 3, ... and returns
// their number.
func readInput(t *testing.T, url string) map[string]int {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	in, err := js.OrderedConsumer(t.Context(), "EUSN-IN", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := codec.NewDecoder(codec.Schema{Channels: []string{"n"}})
	if err != nil {
		t.Fatal(err)
	}
	samples, numbers, incarnations := map[string]int{}, map[string]int{}, map[string]bool{}
	for left := uint64(1); left > 0; {
		m, err := in.Next(jetstream.FetchMaxWait(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		left = meta.NumPending
		key := m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]
		incarnations[key+m.Headers().Get("Eusn-Incarnation")] = true
		if numbers[key]++; m.Headers().Get("Eusn-Seq") != fmt.Sprint(numbers[key]) {
			t.Fatalf("message %d of stream %s has the number %s", numbers[key], key, m.Headers().Get("Eusn-Seq"))
		}
		var b codec.Batch
		if err := d.Decode(m.Data(), &b); err != nil {
			t.Fatal(err)
		}
		for _, x := range b.X {
			if samples[key]++; int(x) != samples[key] {
				t.Fatalf("stream %s: sample %v in place %d", key, x, samples[key])
			}
		}
	}
	if len(incarnations) != len(samples) {
		t.Errorf("%d incarnations of %d streams: %v", len(incarnations), len(samples), slices.Sorted(maps.Keys(incarnations)))
	}
	return samples
}
