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

// copyRetry is between two questions for the copies of the input, and copyForget
// when a server forgets one that was not taken back.
const (
	copyRetry  = 20 * time.Millisecond
	copyForget = 5 * time.Second
)

// copies asks each server that has a copy of the input, until each copy goes to
// message atLeast, and returns how far the furthest goes. Servers hear of a
// change of the input and of a new consumer in the same order. So all of them
// have made the changes that were made before copies was called.
//
// A consumer without copies is on one server, which the cluster chooses by
// chance, and says how far that server's copy goes.
func (j *change) copies(ctx context.Context, atLeast uint64) (furthest uint64, err error) {
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := j.in.Stream.Info(ask)
	for err == nil && !complete(info) { // while it chooses a leader, a cluster names some of the servers
		if err = store.Pause(ask, copyRetry); err == nil {
			info, err = j.in.Stream.Info(ask)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("pipeline: which servers have a copy of %s: %w", wire.InputStream(j.name), err)
	}
	furthest = info.State.LastSeq
	if !replicated(info) {
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
			return 0, fmt.Errorf("pipeline: the copies of %s on %s have not said in %v that they are complete (%v): start these servers, or take them out of the cluster, and run the command again",
				wire.InputStream(j.name), strings.Join(slices.Sorted(maps.Keys(missing)), ", "), patience, why)
		}
	}
	return furthest, nil
}

// someCopy asks one of the servers, by chance.
func (j *change) someCopy(ctx context.Context) (server string, last uint64, err error) {
	cons, err := j.in.Stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: copyForget,
	})
	if err != nil {
		return "", 0, err
	}
	info := cons.CachedInfo()
	_ = j.in.Stream.DeleteConsumer(ctx, info.Name) // or it is forgotten
	if info.Cluster == nil {
		return "", 0, fmt.Errorf("consumer %s names no server", info.Name)
	}
	return info.Cluster.Leader, info.Delivered.Stream, nil
}

// complete reports whether the cluster names all servers with a copy.
func complete(info *jetstream.StreamInfo) bool {
	return !replicated(info) || info.Cluster.Leader != "" && len(info.Cluster.Replicas)+1 >= info.Config.Replicas
}

func replicated(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Config.Replicas > 1
}
