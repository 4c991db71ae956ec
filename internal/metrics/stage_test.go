package metrics

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// TestScrape: a known input gives known figures, over real HTTP.
func TestScrape(t *testing.T) {
	r := newRig(t)
	var counters pipeline.Counters
	base, _ := startServer(t, Options{Counters: &counters, Version: "v1.2.3"})
	c := pipeline.Config{Partitions: 2, Shards: 1, MaxSlots: 10, MaxStreams: 20, Reorder: 1}
	stop := r.startStage(&counters, c)

	seq, end := wire.HeaderSeq, wire.HeaderEnd
	r.publishSamples("a", []float32{1, 2, 3}, seq, "1")
	r.publishSamples("a", []float32{1, 2, 3}, seq, "1") // a repeat
	r.publishSamples("a", []float32{4, 5}, seq, "2", end, "1")
	r.publishSamples("b", []float32{1}, seq, "1")
	r.publishSamples("b", []float32{3}, seq, "3") // waits for 2
	r.publishSamples("b", []float32{2}, seq, "2")
	r.publishSamples("b", []float32{4}, seq, "4", end, "1")
	r.publishSamples("c", []float32{1}, seq, "1")
	r.publishSamples("c", []float32{3}, seq, "3")
	r.publishSamples("c", []float32{4}, seq, "4", end, "1") // 2 is given up
	r.publishSamples("d", []float32{1, 2}, seq, "1")        // stays open
	r.publishSamples("d", []float32{9}, seq, "3")           // waits
	r.sendMessage("e", []byte("no Arrow"))
	r.sendMessage("e", nil)
	r.publishSamples("e", []float32{float32(math.Inf(1))})
	r.publishSamples("e", []float32{1}, wire.HeaderCRC, "00000000")
	r.publishSamples("e", []float32{1}, seq, "none")
	r.publishSamples("e", []float32{1}, end, "1")
	const sent = 18
	waitUntil(t, "answer to all", func() bool {
		s := counters.Stats()
		return s.Messages+s.Duplicates+s.DeadLetters == sent && s.Lag == 0
	})

	sum, err := testModel(t).Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`
# HELP eusn_dead_letters_total Messages that could not be used, by why.
# TYPE eusn_dead_letters_total counter
eusn_dead_letters_total{reason="checksum"} 1
eusn_dead_letters_total{reason="event"} 0
eusn_dead_letters_total{reason="header"} 1
eusn_dead_letters_total{reason="key"} 0
eusn_dead_letters_total{reason="malformed"} 2
eusn_dead_letters_total{reason="schema"} 0
eusn_dead_letters_total{reason="streams"} 0
eusn_dead_letters_total{reason="time"} 0
eusn_dead_letters_total{reason="value"} 1
# HELP eusn_duplicates_total Messages dropped because their sequence number was known.
# TYPE eusn_duplicates_total counter
eusn_duplicates_total 1
# HELP eusn_engine_info 1: what computes, and which model.
# TYPE eusn_engine_info gauge
eusn_engine_info{arithmetic="canonical",engine="generic",model="%s",version="v1.2.3"} 1
# HELP eusn_gaps_total Times a producer's missing messages were given up.
# TYPE eusn_gaps_total counter
eusn_gaps_total 1
# HELP eusn_held_messages Messages that wait for one with a lower sequence number.
# TYPE eusn_held_messages gauge
eusn_held_messages 1
# HELP eusn_messages_total Input messages taken into account, replayed ones excluded.
# TYPE eusn_messages_total counter
eusn_messages_total 12
# HELP eusn_partition_epoch Epoch of the partition: it rises with every claim by any worker.
# TYPE eusn_partition_epoch gauge
eusn_partition_epoch{partition="0"} 1
eusn_partition_epoch{partition="1"} 1
# HELP eusn_partition_lag_messages Input messages stored but not answered, as of the last one received.
# TYPE eusn_partition_lag_messages gauge
eusn_partition_lag_messages{partition="0"} 0
eusn_partition_lag_messages{partition="1"} 0
# HELP eusn_partitions Partitions of this worker, by what it does with them.
# TYPE eusn_partitions gauge
eusn_partitions{phase="claiming"} 0
eusn_partitions{phase="deferred"} 0
eusn_partitions{phase="reading"} 2
eusn_partitions{phase="releasing"} 0
eusn_partitions{phase="replaying"} 0
eusn_partitions{phase="restoring"} 0
eusn_partitions{phase="stopped"} 0
# HELP eusn_predictions_by_class_total Predictions the server has acknowledged, early ones included, by their class.
# TYPE eusn_predictions_by_class_total counter
eusn_predictions_by_class_total{class="a"} 1
eusn_predictions_by_class_total{class="b"} 3
# HELP eusn_predictions_flagged_total Predictions the server has acknowledged that carry a flag; one with two flags counts for each.
# TYPE eusn_predictions_flagged_total counter
eusn_predictions_flagged_total{flag="abstain"} 0
eusn_predictions_flagged_total{flag="decided"} 0
eusn_predictions_flagged_total{flag="early"} 0
eusn_predictions_flagged_total{flag="flat"} 0
eusn_predictions_flagged_total{flag="gap"} 1
eusn_predictions_flagged_total{flag="held"} 0
eusn_predictions_flagged_total{flag="idle"} 0
eusn_predictions_flagged_total{flag="length"} 0
eusn_predictions_flagged_total{flag="out-of-range"} 0
eusn_predictions_flagged_total{flag="poison-skipped"} 1
eusn_predictions_flagged_total{flag="rate"} 0
eusn_predictions_flagged_total{flag="reordered"} 1
eusn_predictions_flagged_total{flag="warm-up"} 0
# HELP eusn_predictions_total Predictions the server has acknowledged, by their integrity.
# TYPE eusn_predictions_total counter
eusn_predictions_total{integrity="complete"} 2
eusn_predictions_total{integrity="early"} 0
eusn_predictions_total{integrity="gap"} 1
eusn_predictions_total{integrity="held"} 0
eusn_predictions_total{integrity="idle"} 0
eusn_predictions_total{integrity="poison-skipped"} 1
eusn_predictions_total{integrity="unknown"} 0
eusn_predictions_total{integrity="unlike-training"} 0
# HELP eusn_ready 1 if /readyz returns 200.
# TYPE eusn_ready gauge
eusn_ready 1
# HELP eusn_reordered_total Messages that came too early and were put in order.
# TYPE eusn_reordered_total counter
eusn_reordered_total 1
# HELP eusn_rows_total Samples that reached a state, replayed ones excluded.
# TYPE eusn_rows_total counter
eusn_rows_total 15
# HELP eusn_state_rows State rows of open sequences, by where they are.
# TYPE eusn_state_rows gauge
eusn_state_rows{place="engine"} 1
eusn_state_rows{place="store"} 0
# HELP eusn_state_rows_capacity State rows that all engines may hold.
# TYPE eusn_state_rows_capacity gauge
eusn_state_rows_capacity 10
# HELP eusn_streams Streams remembered.
# TYPE eusn_streams gauge
eusn_streams 5
# HELP eusn_streams_capacity Streams that the partitions of this worker may remember.
# TYPE eusn_streams_capacity gauge
eusn_streams_capacity 40
`, sum)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(want, -1) {
		names = append(names, m[1])
	}
	if err := testutil.ScrapeAndCompare(base+"/metrics", strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	_, page := getPage(t, base+"/metrics")
	for _, h := range []string{"eusn_batch_rows", "eusn_step_seconds", "eusn_commit_seconds"} {
		n := sample(t, page, h+"_count")
		if last := sample(t, page, h+`_bucket{le="+Inf"}`); n < 1 || last != n {
			t.Errorf("%s: %v values, %v in its buckets", h, n, last)
		}
	}
	// All samples used one engine, so the histogram's sum is their number.
	if n := sample(t, page, "eusn_batch_rows_sum"); n != 15 {
		t.Errorf("batches of %v samples in all, want 15", n)
	}
	if n := sample(t, page, "eusn_decode_seconds_total"); n <= 0 {
		t.Errorf("%v s of decoding", n)
	}
	age := func() float64 {
		_, page := getPage(t, base+"/metrics")
		return sample(t, page, `eusn_partition_snapshot_age_seconds{partition="0"}`) + sample(t, page, `eusn_partition_snapshot_age_seconds{partition="1"}`)
	}
	if a := age(); a <= 0 || a > patience.Seconds() {
		t.Errorf("snapshot ages %v s in all, want some", a)
	}

	// Counters stay after a stage's end, and a second stage adds to them.
	stop()
	before := counters.Stats()
	if before.Snapshots != 2 || before.Held != 0 {
		t.Errorf("%d snapshots at the stop, want one of each partition", before.Snapshots)
	}
	_, page = getPage(t, base+"/metrics")
	samples(t, page, map[string]float64{ // after the stop
		"eusn_messages_total": 12, "eusn_snapshots_total": 2, "eusn_snapshot_bytes_total": float64(before.SnapshotSize),
		"eusn_held_messages": 0, "eusn_streams": 0, "eusn_ready": 0, "eusn_restores_total": 0, "eusn_state_rows_capacity": 0,
	})
	// One sequence was open, with samples 1 and 2: its state in an engine.
	net := testModel(t).Network
	e, err := cpu.New(net, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Advance([]float32{1, 2}, []reservoir.Run{{Reset: true, To: 2}}, nil); err != nil {
		t.Fatal(err)
	}
	l := engine.LayoutOf(net.Spec)
	state, units := make([]uint32, l.Words), make([]float32, net.Spec.Members*net.Spec.Units)
	if err := e.ReadState(0, state); err != nil {
		t.Fatal(err)
	}
	l.UnitsOf(net.Spec, state, units)
	squares := 0.
	for _, h := range units {
		squares += float64(h) * float64(h)
	}
	size := math.Sqrt(squares / float64(len(units)))
	// In units of 1/10,000.
	if got := sample(t, page, "eusn_state_size_sum"); math.Abs(got-size) > 1e-4 || size == 0 || sample(t, page, "eusn_state_size_count") != 1 {
		t.Errorf("a state of size %v, want one of %v\n%s", got, size, page)
	}
	if n := sample(t, page, `eusn_state_saturated_ratio_bucket{le="1"}`); n != 1 || sample(t, page, "eusn_state_saturated_ratio_count") != 1 {
		t.Errorf("%v states have a share of saturated units up to 1, want the one", n)
	}
	r.startStage(&counters, c)
	waitUntil(t, "readiness", func() bool { code, _ := getPage(t, base+"/readyz"); return code == 200 })
	_, page = getPage(t, base+"/metrics")
	samples(t, page, map[string]float64{ // after the second start
		"eusn_restores_total": 2, "eusn_replayed_messages_total": 0, "eusn_claims_total": 4, "eusn_held_messages": 1, "eusn_streams": 5,
		`eusn_partition_epoch{partition="0"}`: 2, `eusn_partition_snapshot_age_seconds{partition="0"}`: 0,
	})
}

// samples checks values on a page of metrics.
func samples(t *testing.T, page string, want map[string]float64) {
	t.Helper()
	for name, want := range want {
		if got := sample(t, page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// sample returns one value on a page of metrics.
func sample(t *testing.T, page, name string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s on the page:\n%s", name, page)
	return 0
}
