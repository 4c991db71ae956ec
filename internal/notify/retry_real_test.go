package notify_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/notify"
)

// TestWebhookWaitsAsAsked: a receiver that requests a wait gets the next attempt after the wait,
// and the event once.
func TestWebhookWaitsAsAsked(t *testing.T) {
	t.Parallel()
	const asked = 2 * time.Second
	r := newRig(t)
	var mu sync.Mutex
	var tries []time.Time
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if tries = append(tries, time.Now()); len(tries) == 1 {
			w.Header().Set("Retry-After", strconv.Itoa(int(asked/time.Second)))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer receiver.Close()
	p := r.startProcess(&notify.Webhook{Job: "job", URL: receiver.URL, First: time.Millisecond, Log: r.log})
	r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "pump"})
	r.waitFor("the second try", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(tries) >= 2
	})
	mu.Lock()
	defer mu.Unlock()
	if waited := tries[1].Sub(tries[0]); waited < asked {
		t.Errorf("the second try came after %v, want %v at least", waited, asked)
	}
	r.stopProcess(p)
}
