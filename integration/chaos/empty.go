//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// empty kills the server and removes all that the job's NATS streams hold. They come
// back with their configuration and their creation time, as a server of a cluster makes
// them after its disk is lost. With restart the workers are killed, too.
func empty(at float64, restart bool, streams ...string) harm {
	return harm{"emptied " + strings.Join(streams, " and "), at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		r.fleet.cutAll()
		defer r.fleet.mendAll()
		n, err := r.cluster.down()
		if err != nil {
			return err
		}
		for _, name := range streams {
			dir := r.cluster.storeDir(n, name)
			if _, err := os.Stat(filepath.Join(dir, "msgs")); err != nil {
				return err
			}
			err := errors.Join(os.RemoveAll(filepath.Join(dir, "msgs")), os.RemoveAll(filepath.Join(dir, "obs")), os.Mkdir(filepath.Join(dir, "msgs"), 0o755))
			if err != nil {
				return err
			}
		}
		if restart {
			r.fleet.killAll()
		}
		return r.cluster.start(n)
	}}
}

// allStreams are those of a job.
var allStreams = []string{inputStream, outputStream, snapStream, rowStream, memberStream}
