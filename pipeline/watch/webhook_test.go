package watch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/watch"
)

// A receiver that fails, is away and is slow gets each event at least once and in order,
// signed, also when the process is killed; one that refuses an event gets the next.
func TestWebhook(t *testing.T) {
	r := newRig(t, -1)
	const secret = "s3"
	var mu sync.Mutex
	var taken []uint64
	calls := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/" { // a redirect was followed
			t.Errorf("%s %s", q.Method, q.URL.Path)
			return
		}
		body, err := io.ReadAll(q.Body)
		e, wrong := alarm.Unmarshal(body)
		at, signature, _ := strings.Cut(strings.TrimPrefix(q.Header.Get(watch.HeaderSignature), "t="), ",v1=")
		if err != nil || wrong != nil || signature != watch.Sign(secret, at, body) || q.Header.Get(watch.HeaderIdempotency) != e.ID || e.ID == "" {
			t.Errorf("%s with %v: %v, %v", body, q.Header, err, wrong)
		}
		mu.Lock()
		defer mu.Unlock()
		switch calls++; {
		case e.Number == 4:
			w.WriteHeader(http.StatusUnprocessableEntity)
		case calls%3 == 0:
			taken = append(taken, e.Number)
		default:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusFound}[calls%2])
		}
	}))
	defer receiver.Close()
	begun := make(chan struct{}, 4)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub"})
	if err != nil {
		t.Fatal(err)
	}
	p := r.start(watch.Options{Rules: rules, Begun: func(alarm.Rules) { begun <- struct{}{} }})
	<-begun
	hook := watch.Webhook{Job: "job", URL: receiver.URL, Secret: secret, First: time.Millisecond, Log: pipelinetest.Log(t)}
	hear := func() (stop func()) {
		nc, err := r.server.Connect("webhook", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- hook.Run(ctx, nc) }()
		r.await("the webhook's consumer", func() bool {
			s, err := r.js.Stream(t.Context(), "JOB-ALARMS")
			if err != nil {
				return false
			}
			_, err = s.Consumer(t.Context(), "webhook")
			return err == nil
		})
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			nc.Close()
		}
	}
	stop := hear()
	got := func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(taken)
	}
	for i := range uint64(3) { // raised, cleared, raised: events 2, 3, 4
		r.send(bad("s", i+1, 2*int32((i+1)%2)))
	}
	r.await("two events", func() bool { return got() == "[2 3]" })
	stop()
	r.send(bad("s", 4, 0)) // 5, while nobody sends
	stop = hear()
	r.await("the event of meanwhile", func() bool { return strings.HasSuffix(got(), " 5]") })
	stop()
	r.end(p)
	if n := len(r.events()); n != 5 {
		t.Errorf("the log has %d events, want 5: the receiver holds up no alarm", n)
	}
}
