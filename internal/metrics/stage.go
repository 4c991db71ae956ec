package metrics

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// unlabeled are the metrics without labels, read from one snapshot of the stage's counters.
var unlabeled = []struct {
	kind       prometheus.ValueType
	name, help string
	value      func(s *pipeline.Stats) float64
}{
	{counter, "eusn_messages_total", "Input messages taken into account, replayed ones excluded.", func(s *pipeline.Stats) float64 { return float64(s.Messages) }},
	{counter, "eusn_rows_total", "Samples that reached a state, replayed ones excluded.", func(s *pipeline.Stats) float64 { return float64(s.Rows) }},
	{counter, "eusn_input_bytes_total", "Payload bytes of the messages taken into account.", func(s *pipeline.Stats) float64 { return float64(s.Bytes) }},
	{counter, "eusn_input_losses_total", "Input messages that came after some of their partition were removed unread: what may lack samples is flagged.", func(s *pipeline.Stats) float64 { return float64(s.Losses) }},
	{counter, "eusn_duplicates_total", "Messages dropped because their sequence number was known.", func(s *pipeline.Stats) float64 { return float64(s.Duplicates) }},
	{counter, "eusn_contradictions_total", "Duplicates whose content was another than that of the message that had their number.", func(s *pipeline.Stats) float64 { return float64(s.Contradictions) }},
	{counter, "eusn_far_times_total", "Samples whose time is before 2000, or more than a day from when their message was stored.", func(s *pipeline.Stats) float64 { return float64(s.FarTimes) }},
	{counter, "eusn_reordered_total", "Messages that came too early and were put in order.", func(s *pipeline.Stats) float64 { return float64(s.Reordered) }},
	{counter, "eusn_gaps_total", "Times a producer's missing messages were given up.", func(s *pipeline.Stats) float64 { return float64(s.Gaps) }},
	{counter, "eusn_incarnations_total", "Times a producer began to number its messages from 1 again.", func(s *pipeline.Stats) float64 { return float64(s.Incarnations) }},
	{counter, "eusn_values_held_total", "Missing values that were filled in.", func(s *pipeline.Stats) float64 { return float64(s.Held) }},
	{counter, "eusn_idle_ends_total", "Sequences ended by a stream's silence.", func(s *pipeline.Stats) float64 { return float64(s.Idle) }},
	{counter, "eusn_decode_seconds_total", "Time in the decoder, of all shards.", func(s *pipeline.Stats) float64 { return s.Decode.Seconds() }},
	{counter, "eusn_commits_total", "Output messages that the server has acknowledged.", func(s *pipeline.Stats) float64 { return float64(s.Commits) }},
	{counter, "eusn_publish_retries_total", "Publishes repeated because no answer came.", func(s *pipeline.Stats) float64 { return float64(s.Retries) }},
	{counter, "eusn_consumer_resets_total", "Errors from which the input's consumers recovered.", func(s *pipeline.Stats) float64 { return float64(s.Resets) }},
	{counter, "eusn_claims_total", "Partitions taken over.", func(s *pipeline.Stats) float64 { return float64(s.Claims) }},
	{counter, "eusn_deferred_total", "Times a partition was given up for a while because the server refused what it needs, or did not answer.", func(s *pipeline.Stats) float64 { return float64(s.Deferred) }},
	{counter, "eusn_fenced_total", "Partitions that another worker took over from this one.", func(s *pipeline.Stats) float64 { return float64(s.Fenced) }},
	{counter, "eusn_restores_total", "Partitions whose state came from a snapshot.", func(s *pipeline.Stats) float64 { return float64(s.Restores) }},
	{counter, "eusn_replayed_messages_total", "Input messages replayed to rebuild states.", func(s *pipeline.Stats) float64 { return float64(s.Replayed) }},
	{counter, "eusn_snapshots_total", "States of partitions stored.", func(s *pipeline.Stats) float64 { return float64(s.Snapshots) }},
	{counter, "eusn_snapshot_bytes_total", "Bytes of them.", func(s *pipeline.Stats) float64 { return float64(s.SnapshotSize) }},
	{counter, "eusn_snapshot_seconds_total", "Time in storing them; the stage works meanwhile.", func(s *pipeline.Stats) float64 { return s.SnapshotTime.Seconds() }},
	{counter, "eusn_streams_forgotten_total", "Streams forgotten for want of room, or after a long silence.", func(s *pipeline.Stats) float64 { return float64(s.Forgotten) }},
	{counter, "eusn_state_rows_evicted_total", "State rows of cold streams that left an engine for the store.", func(s *pipeline.Stats) float64 { return float64(s.Spilled) }},
	{counter, "eusn_state_rows_fetched_total", "State rows that came back from the store.", func(s *pipeline.Stats) float64 { return float64(s.Fetched) }},
	{gauge, "eusn_held_messages", "Messages that wait for one with a lower sequence number.", func(s *pipeline.Stats) float64 { return float64(s.Parked) }},
	{gauge, "eusn_replicas_behind", "Replicas of the job's input and output that have not been current for more than 10 s, according to the server.", func(s *pipeline.Stats) float64 { return float64(s.ReplicasBehind) }},
	{counter, "eusn_streams_new_total", "Streams that their partition did not know.", func(s *pipeline.Stats) float64 { return float64(s.New) }},
	{counter, "eusn_sequences_abandoned_total", "Open sequences that were lost because their stream was forgotten for want of room.", func(s *pipeline.Stats) float64 { return float64(s.Abandoned) }},
	{gauge, "eusn_streams", "Streams remembered.", func(s *pipeline.Stats) float64 { return float64(s.Streams) }},
}

// The metrics with labels.
var (
	predictions = defineMetric(counter, "eusn_predictions_total", "Predictions the server has acknowledged, by their integrity.", "integrity")
	flagged     = defineMetric(counter, "eusn_predictions_flagged_total", "Predictions the server has acknowledged that carry a flag; one with two flags counts for each.", "flag")
	classes     = defineMetric(counter, "eusn_predictions_by_class_total", "Predictions the server has acknowledged, early ones included, by their class.", "class")
	deadLetters = defineMetric(counter, "eusn_dead_letters_total", "Messages that could not be used, by why.", "reason")
	shadows     = defineMetric(counter, "eusn_shadow_predictions_total", "Predictions of a shadow that the server has.", "readout")
	missed      = defineMetric(counter, "eusn_shadow_missed_total", "Predictions of a shadow that were left out, because the server did not take them in time or the engine does not take the shadow.", "readout")
	agreeing    = defineMetric(counter, "eusn_shadow_agreements_total", "Predictions of a shadow, also those left out, of the class that the job has predicted.", "readout")
	stateRows   = defineMetric(gauge, "eusn_state_rows", "State rows of open sequences, by where they are.", "place")
	rowCapacity = defineMetric(gauge, "eusn_state_rows_capacity", "State rows that all engines may hold.")
	streamRoom  = defineMetric(gauge, "eusn_streams_capacity", "Streams that the partitions of this worker may remember.")
	consumers   = defineMetric(gauge, "eusn_consumers", "Consumers of the job's input or output, of the one that has less room.")
	consumerCap = defineMetric(gauge, "eusn_consumers_capacity", "How many consumers the same NATS stream may have.")
	batchRows   = defineMetric(histogram, "eusn_batch_rows", "Samples per batch, replayed ones included.")
	stepTime    = defineMetric(histogram, "eusn_step_seconds", "Time per engine call.")
	commitTime  = defineMetric(histogram, "eusn_commit_seconds", "Time from a batch's first publish until the server had all of it.")
	saturated   = defineMetric(histogram, "eusn_state_saturated_ratio", "Units of a state that have come to their activation's limit in its sequence, of some states of each snapshot.")
	stateSize   = defineMetric(histogram, "eusn_state_size", "Root of the mean square of a state's units, of the same states.")
	ready       = defineMetric(gauge, "eusn_ready", "1 if /readyz returns 200.")
	engineInfo  = defineMetric(gauge, "eusn_engine_info", "1: what computes, and which model.", "engine", "arithmetic", "model", "version")
	partitions  = defineMetric(gauge, "eusn_partitions", "Partitions of this worker, by what it does with them.", "phase")
	epoch       = defineMetric(gauge, "eusn_partition_epoch", "Epoch of the partition: it rises with every claim by any worker.", "partition")
	lag         = defineMetric(gauge, "eusn_partition_lag_messages", "Input messages stored but not answered, as of the last one received.", "partition")
	lagTime     = defineMetric(gauge, "eusn_partition_lag_seconds", "Age of the oldest input message that is stored but not answered, as the server was asked; 0 where there is none, NaN where it is not known.", "partition")
	unsaved     = defineMetric(gauge, "eusn_partition_snapshot_age_seconds", "Age of the oldest answered message that no snapshot in use holds; 0 where there is none.", "partition")
)

// stage collects a stage's counters and status.
type stage struct {
	counters *pipeline.Counters
	version  string
	plain    []*metric
}

func newStage(c *pipeline.Counters, version string) *stage {
	s := &stage{counters: c, version: version}
	for _, p := range unlabeled {
		s.plain = append(s.plain, defineMetric(p.kind, p.name, p.help))
	}
	return s
}

func (s *stage) metrics() []*metric {
	return append([]*metric{predictions, flagged, classes, deadLetters, shadows, missed, agreeing, stateRows, rowCapacity, streamRoom, consumers, consumerCap, batchRows, stepTime, commitTime, saturated, stateSize,
		ready, engineInfo, partitions, epoch, lag, lagTime, unsaved}, s.plain...)
}

// Describe implements prometheus.Collector.
func (s *stage) Describe(out chan<- *prometheus.Desc) { describeAll(out, s.metrics()) }

// Collect implements prometheus.Collector.
func (s *stage) Collect(out chan<- prometheus.Metric) {
	stats, status := s.counters.Stats(), s.counters.Status()
	for i, p := range unlabeled {
		s.plain[i].sendValue(out, p.value(&stats))
	}
	for word, n := range stats.PredictionsBy {
		predictions.sendValue(out, float64(n), word)
	}
	ofClass := map[string]uint64{}
	for class, n := range stats.PredictionsOf {
		ofClass[strings.ToValidUTF8(class, "\uFFFD")] += n // a label with invalid UTF-8 would break the whole page
	}
	for class, n := range ofClass {
		classes.sendValue(out, float64(n), class)
	}
	for flag, n := range stats.FlaggedBy {
		flagged.sendValue(out, float64(n), flag)
	}
	for reason, n := range stats.DeadLettersBy {
		deadLetters.sendValue(out, float64(n), reason)
	}
	for _, one := range s.counters.Shadows() {
		shadows.sendValue(out, float64(one.Predictions), one.Readout)
		missed.sendValue(out, float64(one.Missed), one.Readout)
		agreeing.sendValue(out, float64(one.Agreeing), one.Readout)
	}
	stateRows.sendValue(out, float64(stats.Slots), "engine")
	stateRows.sendValue(out, float64(stats.Away), "store")
	batchRows.sendHistogram(out, stats.BatchRows)
	stepTime.sendHistogram(out, stats.StepTime)
	commitTime.sendHistogram(out, stats.CommitTime)
	states := s.counters.States()
	saturated.sendHistogram(out, states.Saturated)
	stateSize.sendHistogram(out, states.Size)
	ready.sendValue(out, boolValue(len(status.Unready()) == 0))
	s.collectStatus(out, &status)
}

func (s *stage) collectStatus(out chan<- prometheus.Metric, status *pipeline.Status) {
	rowCapacity.sendValue(out, float64(status.MaxRows))
	streamRoom.sendValue(out, float64(status.MaxStreams*len(status.Partitions)))
	consumers.sendValue(out, float64(status.Consumers))
	consumerCap.sendValue(out, float64(status.MaxConsumers))
	for _, engine := range status.Engines {
		engineInfo.sendValue(out, 1, engine, status.Arithmetic, status.Model, s.version)
	}
	in := map[pipeline.Phase]int{}
	for _, p := range status.Partitions {
		in[p.Phase]++
		if p.Epoch == 0 { // not claimed: unknown
			continue
		}
		id := strconv.Itoa(p.Partition)
		epoch.sendValue(out, float64(p.Epoch), id)
		lag.sendValue(out, float64(p.Lag), id)
		behind := math.NaN()
		if p.LagTime != pipeline.UnknownLag {
			behind = p.LagTime.Seconds()
		}
		lagTime.sendValue(out, behind, id)
		age := 0.0
		if !p.Unsaved.IsZero() {
			age = max(0, time.Since(p.Unsaved).Seconds())
		}
		unsaved.sendValue(out, age, id)
	}
	for _, phase := range pipeline.Phases() {
		partitions.sendValue(out, float64(in[phase]), string(phase))
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
