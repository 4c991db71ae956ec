//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// disk knows what of the files below a folder has reached the disk. The content of a file
// is there after a sync of the file, as is its name; a renamed or removed name after a sync
// of its folder (as on ext4). Everything else may be there after a loss of power or not.
type disk struct {
	root    string
	content map[uint64][]byte // by inode, at the last sync
	names   map[string]uint64 // inodes of durable names
	keeps   bool              // a loss of power may follow
	room    *room             // shared with the copies of the folder
	syncs   int

	replaced uint64 // files without a name that were on the disk
}

// disks are the watched folders: of the server, and of each guest with files.
var disks []*disk

// watchDisk follows the syncs of files below root.
func watchDisk(root string) *disk {
	d := &disk{root: root, content: map[uint64][]byte{}, names: map[string]uint64{}, room: &room{}}
	if dir, err := os.Getwd(); err == nil {
		if dir, err = filepath.EvalSymlinks(dir); err == nil { // as in /proc
			d.root = filepath.Join(dir, root)
		}
	}
	disks = append(disks, d)
	simWrote = func(fd int) {
		if slices.ContainsFunc(disks, func(d *disk) bool { return d.keeps }) && isSynced(fd) {
			noteSync(fd)
		}
	}
	simSynced, simRoom = noteSync, findRoom
	return d
}

// forget ends the watch.
func (d *disk) forget() { disks = slices.DeleteFunc(disks, func(o *disk) bool { return o == d }) }

// isSynced reports whether each write to a file is a sync.
func isSynced(fd int) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	return errno == 0 && flags&syscall.O_SYNC == syscall.O_SYNC
}

// noteSync notes a sync of a file or of a folder on its disk.
func noteSync(fd int) {
	if d, name := findDisk(fd); d != nil {
		d.noteSync(name)
	}
}

// findDisk returns the disk of an open file, and the name of the file; nil: none is watched.
func findDisk(fd int) (*disk, string) {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, ""
	}
	for _, d := range disks {
		if name == d.root || strings.HasPrefix(name, d.root+"/") {
			return d, name
		}
	}
	return nil, ""
}

// inherit notes what of a copied store was on the disk: after a loss of power everything,
// otherwise what was on the disk before, also of files that were renamed since.
func (d *disk) inherit(before *disk, power bool) error {
	d.room = before.room
	if d.keeps = before.keeps; !d.keeps {
		return nil
	}
	return filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if power {
			d.names[path] = inode(info)
			d.content[inode(info)], err = os.ReadFile(path)
			return err
		}
		from := before.root + strings.TrimPrefix(path, d.root)
		last, err := os.Stat(from)
		if err != nil { // a file of a restored backup
			return nil
		}
		if synced, ok := before.content[inode(last)]; ok {
			d.content[inode(info)] = synced
		}
		switch old, durable := before.names[from]; {
		case !durable:
		case old == inode(last):
			d.names[path] = inode(info)
		default: // a file that another one has replaced, in a folder that was not synced since
			d.replaced++
			d.names[path] = 1<<63 + d.replaced
			d.content[d.names[path]] = before.content[old]
		}
		return nil
	})
}

// noteSync notes what a sync of a file or of a folder has stored.
func (d *disk) noteSync(name string) {
	d.syncs++
	if !d.keeps {
		return
	}
	info, err := os.Stat(name)
	if err != nil {
		return
	}
	if !info.IsDir() {
		if data, err := os.ReadFile(name); err == nil {
			d.content[inode(info)], d.names[name] = data, inode(info)
		}
		return
	}
	for path := range d.names {
		if filepath.Dir(path) == name {
			delete(d.names, path)
		}
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() {
			d.names[filepath.Join(name, e.Name())] = inode(info)
		}
	}
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// copyAfterLoss copies the files as a loss of power leaves them. Each file that is not
// synced is lost, old, new or torn, separately.
func (d *disk) copyAfterLoss(rng *rand.Rand, to string) error {
	live, data, folders := map[string]uint64{}, map[uint64][]byte{}, []string{}
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			folders = append(folders, path)
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		live[path] = inode(info)
		data[inode(info)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	place := func(path string) string { return filepath.Join(to, strings.TrimPrefix(path, d.root)) }
	for _, f := range folders {
		if err := os.MkdirAll(place(f), 0o700); err != nil {
			return err
		}
	}
	all := maps.Clone(live)
	maps.Copy(all, d.names)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		node := d.names[path]
		if node != live[path] && rng.IntN(2) == 0 {
			node = live[path]
		}
		if node == 0 {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(place(path)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(place(path), d.drawContent(rng, node, data), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// drawContent draws the content of a file after a loss of power: each block is old or new,
// and the length is old, new or between.
func (d *disk) drawContent(rng *rand.Rand, node uint64, live map[uint64][]byte) []byte {
	old := d.content[node]
	now, there := live[node]
	if !there || bytes.Equal(old, now) {
		return old
	}
	switch rng.IntN(3) {
	case 0:
		return old
	case 1:
		return now
	}
	const block = 512
	torn := slices.Clone(old)
	if len(now) > len(old) {
		torn = append(torn, make([]byte, rng.IntN(len(now)-len(old)+1))...)
	}
	for i := 0; i < len(torn); i += block {
		if i < len(now) && rng.IntN(2) == 0 {
			copy(torn[i:min(i+block, len(torn))], now[i:])
		}
	}
	return torn
}
