package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// members is the job's list of living workers: a key each in a bucket whose entries
// expire with their lease. The list decides which worker should work on a partition;
// the fence of the commits decides which worker may.
type members struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream // the bucket's
	prefix string           // prefix of its subjects
	self   string
	clock  func() time.Time

	mu  sync.Mutex
	now []string // sorted

	// A recreated bucket knows only the workers that have renewed since.
	created time.Time // of the bucket
	last    uint64    // its last message
	before  []string  // living workers when the bucket was lost
	until   time.Time // until then they count as living
}

func openMembers(ctx context.Context, js jetstream.JetStream, c Config, self string, clock func() time.Time) (*members, error) {
	name := wire.MemberBucket(c.Job)
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, TTL: c.Lease, Storage: jetstream.FileStorage, Replicas: c.Replicas})
		if errors.Is(err, jetstream.ErrBucketExists) { // another worker was first
			kv, err = js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: key-value bucket %s: %w", name, err)
	}
	stream, err := js.Stream(ctx, wire.MemberStream(c.Job))
	if err != nil {
		return nil, fmt.Errorf("pipeline: key-value bucket %s: %w", name, err)
	}
	if got := stream.CachedInfo().Config.MaxAge; got < c.Lease {
		return nil, fmt.Errorf("pipeline: key-value bucket %s has a lease of %v, the configuration says %v: all workers of a job need the same lease: set stage.lease to %v here (to change it for all: stop all workers, then delete the bucket, which holds only the list of workers)", name, got, c.Lease, got)
	}
	return &members{kv: kv, stream: stream, prefix: "$KV." + name + ".", self: self, clock: clock, created: stream.CachedInfo().Created}, nil
}

// renewLease extends this worker's lease and reads the list of living workers, from the
// leader.
func (m *members) renewLease(ctx context.Context) ([]string, error) {
	if _, err := m.kv.Put(ctx, m.self, []byte(m.clock().UTC().Format(time.RFC3339))); err != nil {
		return nil, fmt.Errorf("pipeline: lease not renewed: %w", natsclient.Plain(err))
	}
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(m.prefix+">"))
	if err != nil {
		return nil, fmt.Errorf("pipeline: workers not listed: %w", err)
	}
	var now []string
	for subject := range info.State.Subjects {
		now = append(now, strings.TrimPrefix(subject, m.prefix))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	recreated := !info.Created.Equal(m.created) || info.State.LastSeq < m.last
	m.last = info.State.LastSeq
	if recreated {
		m.created, m.before, m.until = info.Created, m.now, time.Now().Add(info.Config.MaxAge)
	}
	if time.Now().Before(m.until) {
		now = append(now, m.before...)
	}
	slices.Sort(now)
	now = slices.Compact(now)
	m.now = now
	return now, nil
}

// hasOthers reports whether another worker lives, as far as known.
func (m *members) hasOthers(worker string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return worker != m.self && slices.Contains(m.now, worker)
}

// removeSelf removes this worker's key. A deletion would leave a marker, counted by
// other workers as a worker until the lease ends.
func (m *members) removeSelf(ctx context.Context) error {
	return m.stream.Purge(ctx, jetstream.WithPurgeSubject(m.prefix+m.self))
}

// assignOwners assigns partitions to workers: each pair has a weight, and each partition in
// turn takes the worker of highest weight with room, ceil(partitions/workers) per
// worker. Every worker computes the same assignment from the same list, and a joining
// or leaving worker moves few partitions of the others.
func assignOwners(workers []string, partitions int) []string {
	out := make([]string, partitions)
	if len(workers) == 0 {
		return out
	}
	room := (partitions + len(workers) - 1) / len(workers)
	load := map[string]int{}
	for p := range out {
		free := slices.DeleteFunc(slices.Clone(workers), func(w string) bool { return load[w] >= room })
		out[p] = slices.MaxFunc(free, func(a, b string) int {
			return cmp.Or(cmp.Compare(weightOf(a, p), weightOf(b, p)), cmp.Compare(a, b))
		})
		load[out[p]]++
	}
	return out
}

// weightOf is FNV-1a of both, with additional mixing: the high bits of FNV-1a differ too
// little between short names.
func weightOf(worker string, p int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s.%d", worker, p)
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
