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

// A power loss loses data that the kernel has not written yet. So each server of a run
// with images has its store on a separate ext4 file system, in a file on a loop device:
// the file holds the content of a disk. Each server mounts its image in a private mount
// namespace, which ends with the server.

const imageBytes = 1 << 29 // sparse

// mounts returns the reason why no image can be mounted here, empty if mounting works.
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

// mountImage mounts an image in a server's private mount namespace.
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

func (c *cluster) createImage(n *node) string { return filepath.Join(c.dir, n.name+".img") }

// syncStreams writes the NATS streams to the disk one by one, in a random order: a
// default server syncs each stream separately, every two minutes.
func syncStreams(from, to float64) (list []harm) {
	names := []string{inputStream, outputStream, snapStream, rowStream, memberStream, deadStream}
	return spreadHarms("NATS stream synced", from, to, len(names), func(r *run, i int) error {
		n := r.cluster.nodes[0]
		return syncFiles(n.pathInside(r.cluster.storeDir(n, names[r.newRand("syncs").Perm(len(names))[i]])))
	})
}

// syncNodes makes the servers write all data to their disks, one server after the other,
// several times: the cluster's own logs as well.
func syncNodes(from, to float64, rounds int) []harm {
	return spreadHarms("server synced", from, to, 3*rounds, func(r *run, i int) error {
		n := r.cluster.nodes[i%len(r.cluster.nodes)]
		return syncFiles(n.pathInside(filepath.Join(r.cluster.dir, n.name)))
	})
}

// spreadHarms returns n harms of a kind, evenly distributed.
func spreadHarms(what string, from, to float64, n int, do func(r *run, i int) error) (list []harm) {
	for i := range n {
		list = append(list, harm{what, from + (to-from)*float64(i)/float64(n), func(_ context.Context, r *run, _ jetstream.JetStream) error {
			return do(r, i)
		}})
	}
	return list
}

// pathInside returns the path in the server's mount namespace.
func (n *node) pathInside(path string) string {
	return filepath.Join("/proc", strconv.Itoa(n.proc.cmd.Process.Pid), "root", path)
}

func syncFiles(dir string) error {
	list, err := listFiles(dir)
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

// powerLoss cuts the power of one server after the other, up to skew apart. Each server
// is stopped, its disk is copied, and the server is killed. All servers restart on the
// copies.
func powerLoss(at float64, skew time.Duration) harm {
	return harm{"power loss", at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		rng := r.newRand("power")
		for i, k := range rng.Perm(len(r.cluster.nodes)) {
			if i > 0 {
				time.Sleep(time.Duration(rng.Int64N(int64(skew) + 1)))
			}
			n := r.cluster.nodes[k]
			n.proc.signal(syscall.SIGSTOP)
			if !n.proc.isStopped() {
				return fmt.Errorf("server %s does not stop", n.name)
			}
			image := r.cluster.createImage(n)
			if out, err := exec.Command("cp", "--sparse=always", image, image+".cut").CombinedOutput(); err != nil {
				return fmt.Errorf("copying %s: %w: %s", image, err, out)
			}
			n.proc.kill()
		}
		for _, n := range r.cluster.nodes {
			image := r.cluster.createImage(n)
			if err := os.Rename(image+".cut", image); err != nil {
				return err
			}
		}
		for _, n := range r.cluster.nodes {
			if err := r.cluster.startNode(n); err != nil {
				return err
			}
		}
		if len(r.cluster.nodes) == 1 {
			return nil
		}
		return r.cluster.awaitLeaders(ctx, js)
	}}
}
