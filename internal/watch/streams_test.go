package watch

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// The alarm log may have more consumers than a server's usual 1,000: whoever reads it
// must not be able to keep the process that writes it from reading it.
func TestAlarmLogTakesManyConsumers(t *testing.T) {
	_, js := ensured(t)
	s, err := js.Stream(t.Context(), wire.AlarmStream("job"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config.MaxConsumers; got != store.MaxConsumers {
		t.Errorf("it may have %d consumers, want %d", got, store.MaxConsumers)
	}
}
