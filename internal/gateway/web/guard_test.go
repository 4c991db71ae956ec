package web

import (
	"cmp"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/webguard"
)

// rig is a gateway with HTTP that counts the stored samples.
type rig struct {
	t   *testing.T
	js  jetstream.JetStream
	in  jetstream.Stream
	g   *gateway.Gateway
	s   *Server
	url string
}

func newRig(t *testing.T, o Options, change func(*gateway.Config)) *rig {
	t.Helper()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	r := &rig{t: t, js: js}
	var err error
	if r.in, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.0.{{wildcard(1)}}"}}); err != nil {
		t.Fatal(err)
	}
	book := &pipelinetest.LogBook{}
	c := gateway.Config{Channels: []string{"x"}, Decoder: length{}, Lines: length{}, Dir: t.TempDir(), Log: book.Logger()}
	if change != nil {
		change(&c)
	}
	if r.g, err = gateway.New(nc, c); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.g.Run(t.Context()) }()
	if o.Topics, err = gateway.ParseTopics("plant/+"); err != nil {
		t.Fatal(err)
	}
	o.Addr, o.MaxMessage, o.Log = "127.0.0.1:0", cmp.Or(o.MaxMessage, 1<<10), book.Logger()
	if r.s, err = Listen(r.g, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's context has ended
		r.s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	r.url = "http://" + r.s.Addr().String()
	return r
}

func (r *rig) countStored() uint64 {
	r.t.Helper()
	info, err := r.in.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return info.State.Msgs
}

// A web page can make a browser post to a gateway on the same machine, without access to the
// answer: the gateway stores nothing.
func TestForeignPagesAreRefused(t *testing.T) {
	t.Parallel()
	guard, err := webguard.New(webguard.Options{Key: "gateway.hosts"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Guard: guard}, nil)
	for _, c := range []struct {
		header, value string
		code          int
	}{
		{"Origin", "http://evil.example", 403},
		{"Sec-Fetch-Site", "cross-site", 403},
		{"Host", "evil.example", 403},
		{"User-Agent", "a device", 204},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/plant/a", strings.NewReader("1"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, c.value)
		if c.header == "Host" {
			req.Host = c.value
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.code {
			t.Errorf("%s: %s: %d, want %d", c.header, c.value, res.StatusCode, c.code)
		}
	}
	if n, refused := r.countStored(), r.g.Stats().Refused["http"]; n != 1 || refused != 3 {
		t.Errorf("%d messages stored, %d refused; want 1, 3", n, refused)
	}
}

// postSample sends a sample of a stream and returns the status.
func (r *rig) postSample(topic string) int {
	r.t.Helper()
	res, err := http.Post(r.url+"/v1/"+topic, "text/plain", strings.NewReader("1"))
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// A sender may start a limited number of streams per minute. Its existing streams are not
// affected, nor streams already in the input, as after a restart of the gateway.
func TestNewStreamsAreLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, func(c *gateway.Config) { c.NewStreams = 3 })
	if _, err := r.js.Publish(t.Context(), "sensors.old", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		topic string
		code  int
	}{{"plant/a", 204}, {"plant/b", 204}, {"plant/c", 204}, {"plant/d", 503}, {"plant/a", 204}, {"plant/old", 204}, {"plant/d", 503}} {
		if code := r.postSample(c.topic); code != c.code {
			t.Errorf("%s: %d, want %d", c.topic, code, c.code)
		}
	}
	if s := r.g.Stats(); s.NewStreams != 3 || s.Refused["http"] != 2 {
		t.Errorf("%d new streams, %d refused; want 3, 2", s.NewStreams, s.Refused["http"])
	}
}

// Unlisted keys are refused.
func TestKeysAreListed(t *testing.T) {
	t.Parallel()
	keys, err := names.ParsePatterns("a*, b")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{}, func(c *gateway.Config) { c.Keys = keys })
	for topic, want := range map[string]int{"plant/a1": 204, "plant/b": 204, "plant/b1": 400, "plant/x": 400} {
		if code := r.postSample(topic); code != want {
			t.Errorf("%s: %d, want %d", topic, code, want)
		}
	}
	if n := r.countStored(); n != 2 {
		t.Errorf("%d messages stored, want 2", n)
	}
}
