package load

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
)

func TestArrivals(t *testing.T) {
	g := NewArrivals(3)
	now := time.Now()
	g.Expect("a", now.Add(-3*time.Second))
	g.Expect("a", now.Add(-time.Second))
	g.Expect("b", now.Add(-2*time.Second))
	take := func(stream string) error {
		return g.Record(consumer.Output{Predictions: []codec.Prediction{{Stream: stream}}})
	}
	for _, s := range []string{"a", "b", "a"} {
		select {
		case <-g.Complete():
			t.Fatal("complete too early")
		default:
		}
		if err := take(s); err != nil {
			t.Fatal(err)
		}
	}
	<-g.Complete()
	if err := take("a"); err == nil {
		t.Error("a prediction of nothing passed")
	}
	ms := g.Latencies(1500 * time.Millisecond) // after the first 1.5 s: only the last
	if len(ms) != 1 || ms[0] < 1000 || ms[0] > 1900 {
		t.Errorf("latencies %v", ms)
	}
	if v := []float64{1, 2, 3, 4}; Quantile(v, .5) != 2 || Quantile(v, .99) != 4 || Quantile(v, 0) != 1 || Quantile(nil, .5) != 0 {
		t.Error("quantiles are wrong")
	}
}
