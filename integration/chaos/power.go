//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A power loss takes what the kernel has not written yet. So each server of a run
// with images has its store on its own ext4 file system, in a file behind a loop
// device: the file holds what a disk would hold. Each server mounts its image
// itself, in its own mount namespace, which ends with the server.

const imageBytes = 1 << 29 // sparse

// mounts says why no image can be mounted here, empty if one can.
var mounts = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "eusn-chaos-mount-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	image := filepath.Join(dir, "image")
	if err := makeImage(image); err != nil {
		return err.Error()
	}
	cmd := exec.Command("sh", "-c", `mount --make-rprivate / && mount -o loop "$0" "$1"`, image, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("mounting a file system in a file: %v: %s", err, out)
	}
	return ""
})

func makeImage(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(imageBytes); err != nil {
		return err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", path).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4 (e2fsprogs): %w: %s", err, out)
	}
	return nil
}

// mountImage is for a server in a mount namespace of its own.
func mountImage(image, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{{"--make-rprivate", "/"}, {"-o", "loop,noatime", image, dir}} {
		if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("mount %v: %w: %s", args, err, out)
		}
	}
	return nil
}

func (c *cluster) image(n *node) string { return filepath.Join(c.dir, n.name+".img") }

// syncs writes one NATS stream after the other to the disk, in a random order: a
// stock server syncs each at its own time, every two minutes.
func syncs(from, to float64) (list []harm) {
	names := []string{inputStream, outputStream, snapStream, rowStream, memberStream, deadStream}
	return spread("NATS stream synced", from, to, len(names), func(r *run, i int) error {
		n := r.cluster.nodes[0]
		return syncFiles(n.seen(r.cluster.storeDir(n, names[r.rng("syncs").Perm(len(names))[i]])))
	})
}

// syncNodes makes the servers write everything to their disks, one server after
// the other, several times: the cluster's own logs, too.
func syncNodes(from, to float64, rounds int) []harm {
	return spread("server synced", from, to, 3*rounds, func(r *run, i int) error {
		n := r.cluster.nodes[i%len(r.cluster.nodes)]
		return syncFiles(n.seen(filepath.Join(r.cluster.dir, n.name)))
	})
}

// spread is n harms of a kind, evenly distributed.
func spread(what string, from, to float64, n int, do func(r *run, i int) error) (list []harm) {
	for i := range n {
		list = append(list, harm{what, from + (to-from)*float64(i)/float64(n), func(_ context.Context, r *run, _ jetstream.JetStream) error {
			return do(r, i)
		}})
	}
	return list
}

// seen is a path as a server sees it, in its mount namespace.
func (n *node) seen(path string) string {
	return filepath.Join("/proc", strconv.Itoa(n.proc.cmd.Process.Pid), "root", path)
}

func syncFiles(dir string) error {
	list, err := files(dir)
	if err != nil {
		return err
	}
	for _, path := range list {
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// powerLoss takes the power from one server after the other, up to skew apart.
// Each server is stopped, its disk is copied as it is, and the server is killed.
// All start again on the copies.
func powerLoss(at float64, skew time.Duration) harm {
	return harm{"power loss", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		rng := r.rng("power")
		for i, k := range rng.Perm(len(r.cluster.nodes)) {
			if i > 0 {
				time.Sleep(time.Duration(rng.Int64N(int64(skew) + 1)))
			}
			n := r.cluster.nodes[k]
			n.proc.signal(syscall.SIGSTOP)
			if !n.proc.stopped() {
				return fmt.Errorf("server %s does not stop", n.name)
			}
			image := r.cluster.image(n)
			if out, err := exec.Command("cp", "--sparse=always", image, image+".cut").CombinedOutput(); err != nil {
				return fmt.Errorf("copying %s: %w: %s", image, err, out)
			}
			n.proc.kill()
		}
		for _, n := range r.cluster.nodes {
			image := r.cluster.image(n)
			if err := os.Rename(image+".cut", image); err != nil {
				return err
			}
		}
		for _, n := range r.cluster.nodes {
			if err := r.cluster.start(n); err != nil {
				return err
			}
		}
		if len(r.cluster.nodes) == 1 {
			return nil
		}
		return r.cluster.led(ctx, js)
	}}
}
