package watch

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// TestAlarmLogTakesManyConsumers: the alarm log allows more consumers than a server's usual 1,000:
// readers must not prevent the writer from reading the log.
func TestAlarmLogTakesManyConsumers(t *testing.T) {
	_, js := serverWithJob(t)
	s, err := js.Stream(t.Context(), wire.AlarmStream("job"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config.MaxConsumers; got != store.MaxConsumers {
		t.Errorf("it may have %d consumers, want %d", got, store.MaxConsumers)
	}
}
