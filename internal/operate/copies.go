package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// copyRetry is the pause between two requests for the copies of the input; after
// copyForget a server deletes a consumer that was not removed.
const (
	copyRetry  = 20 * time.Millisecond
	copyForget = 5 * time.Second
)

// compareCopies asks each server with a copy of the input, until each copy reaches
// message atLeast, and returns the position of the furthest copy. Servers process a
// change of the input and a new consumer in the same order. So all servers have made the
// changes before the call.
//
// A consumer without replicas is on a random server of the cluster, and reports the
// position of this server's copy.
func (j *change) compareCopies(ctx context.Context, atLeast uint64) (furthest uint64, err error) {
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := j.in.Stream.Info(ask)
	for err == nil && !isComplete(info) { // during the election of a leader, a cluster lists only some servers
		if err = store.Pause(ask, copyRetry); err == nil {
			info, err = j.in.Stream.Info(ask)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("pipeline: which servers have a copy of %s: %w", wire.InputStream(j.name), err)
	}
	furthest = info.State.LastSeq
	if !isReplicated(info) {
		return furthest, nil
	}
	missing := map[string]bool{}
	for _, r := range info.Cluster.Replicas {
		missing[r.Name] = true
	}
	missing[info.Cluster.Leader] = true
	var why error
	for len(missing) > 0 {
		name, last, err := j.someCopy(ask)
		switch {
		case err != nil:
			why = err
		case last >= atLeast:
			delete(missing, name)
			furthest = max(furthest, last)
		}
		if len(missing) > 0 && store.Pause(ask, copyRetry) != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return 0, fmt.Errorf("pipeline: the copies of %s on %s have not reported completion within %v (%v): start these servers, or take them out of the cluster, and run the command again",
				wire.InputStream(j.name), strings.Join(slices.Sorted(maps.Keys(missing)), ", "), patience, why)
		}
	}
	return furthest, nil
}

// someCopy asks a random server.
func (j *change) someCopy(ctx context.Context) (server string, last uint64, err error) {
	cons, err := j.in.Stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: copyForget,
	})
	if err != nil {
		return "", 0, err
	}
	info := cons.CachedInfo()
	_ = j.in.Stream.DeleteConsumer(ctx, info.Name) // otherwise the server deletes it later
	if info.Cluster == nil {
		return "", 0, fmt.Errorf("consumer %s names no server", info.Name)
	}
	return info.Cluster.Leader, info.Delivered.Stream, nil
}

// isComplete reports whether the cluster names all servers with a copy.
func isComplete(info *jetstream.StreamInfo) bool {
	return !isReplicated(info) || info.Cluster.Leader != "" && len(info.Cluster.Replicas)+1 >= info.Config.Replicas
}

func isReplicated(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Config.Replicas > 1
}
