package pack

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Types of values in a header (rpmTagType_e).
const (
	rpmInt16   = 3
	rpmInt32   = 4
	rpmString  = 6
	rpmBin     = 7
	rpmStrings = 8
	rpmI18N    = 9
)

// rpmTags is a header of rpm: values with numbers.
type rpmTags struct{ all []rpmTag }

type rpmTag struct {
	tag, kind, count int
	data             []byte
}

// addValue adds a value, or the next element of a value.
func (t *rpmTags) addValue(tag, kind int, element []byte) {
	i := slices.IndexFunc(t.all, func(e rpmTag) bool { return e.tag == tag })
	if i < 0 {
		i = len(t.all)
		t.all = append(t.all, rpmTag{tag: tag, kind: kind})
	}
	t.all[i].count++
	t.all[i].data = append(t.all[i].data, element...)
}

func (t *rpmTags) text(tag int, s string) { t.addValue(tag, rpmString, append([]byte(s), 0)) }
func (t *rpmTags) i18n(tag int, s string) { t.addValue(tag, rpmI18N, append([]byte(s), 0)) }
func (t *rpmTags) texts(tag int, list ...string) {
	for _, s := range list {
		t.addValue(tag, rpmStrings, append([]byte(s), 0))
	}
}

func (t *rpmTags) int32s(tag int, list ...int) {
	for _, v := range list {
		t.addValue(tag, rpmInt32, binary.BigEndian.AppendUint32(nil, uint32(v)))
	}
}

func (t *rpmTags) int16s(tag int, list ...int) {
	for _, v := range list {
		t.addValue(tag, rpmInt16, binary.BigEndian.AppendUint16(nil, uint16(v)))
	}
}

func (t *rpmTags) bin(tag int, data []byte) {
	t.all = append(t.all, rpmTag{tag, rpmBin, len(data), data})
}

// encode returns the header: an index of 16 bytes for each value, and the values. The
// whole header is one region, named by a tag for signatures and checks: the first entry
// of the index points to a copy of itself after the values, which has the length of the
// index.
func (t *rpmTags) encode(region int) []byte {
	entry := func(tag, kind, offset, count int) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(tag))
		b = binary.BigEndian.AppendUint32(b, uint32(kind))
		b = binary.BigEndian.AppendUint32(b, uint32(int32(offset)))
		return binary.BigEndian.AppendUint32(b, uint32(count))
	}
	slices.SortStableFunc(t.all, func(a, b rpmTag) int { return cmp.Compare(a.tag, b.tag) })
	var index, store bytes.Buffer
	for _, e := range t.all {
		switch e.kind {
		case rpmInt16:
			store.Write(make([]byte, -store.Len()&1))
		case rpmInt32:
			store.Write(make([]byte, -store.Len()&3))
		}
		index.Write(entry(e.tag, e.kind, store.Len(), e.count))
		store.Write(e.data)
	}
	n := len(t.all) + 1
	trailer := store.Len()
	store.Write(entry(region, rpmBin, -16*n, 16))

	b := []byte("\x8e\xad\xe8\x01\x00\x00\x00\x00")
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = binary.BigEndian.AppendUint32(b, uint32(store.Len()))
	b = append(b, entry(region, rpmBin, trailer, 16)...)
	b = append(b, index.Bytes()...)
	return append(b, store.Bytes()...)
}

// rpmFiles are the properties of files in a header: a list for each property.
type rpmFiles struct {
	sizes, modes, devices, times, flags, verify, inodes, dirs []int
	digests, links, users, langs, names, dirnames             []string
}

func (l *rpmFiles) addFile(i int, f File, at int) {
	dir := "/" + path.Dir(f.Path) + "/"
	in := slices.Index(l.dirnames, dir)
	if in < 0 {
		in = len(l.dirnames)
		l.dirnames = append(l.dirnames, dir)
	}
	flags, digest, size := 0, "", 4096
	if !f.Mode.IsDir() {
		digest, size = fmt.Sprintf("%x", sha256.Sum256(f.Data)), len(f.Data)
		if strings.HasPrefix(f.Path, "usr/share/doc/") || strings.HasPrefix(f.Path, "usr/share/man/") {
			flags |= rpmDoc
		}
	}
	if f.Config {
		flags |= rpmConfigNoReplace
	}
	l.sizes, l.modes, l.devices = append(l.sizes, size), append(l.modes, rpmMode(f)), append(l.devices, 1)
	l.times, l.flags, l.verify = append(l.times, at), append(l.flags, flags), append(l.verify, -1)
	l.inodes, l.dirs = append(l.inodes, i+1), append(l.dirs, in)
	l.digests, l.links, l.users = append(l.digests, digest), append(l.links, ""), append(l.users, "root")
	l.langs, l.names = append(l.langs, ""), append(l.names, path.Base(f.Path))
}

func (l *rpmFiles) write(t *rpmTags) {
	t.int32s(1028, l.sizes...)
	t.int16s(1030, l.modes...)
	t.int16s(1033, make([]int, len(l.sizes))...)
	t.int32s(1034, l.times...)
	t.texts(1035, l.digests...)
	t.texts(1036, l.links...)
	t.int32s(1037, l.flags...)
	t.texts(1039, l.users...)
	t.texts(1040, l.users...)
	t.int32s(1045, l.verify...)
	t.int32s(1095, l.devices...)
	t.int32s(1096, l.inodes...)
	t.texts(1097, l.langs...)
	t.int32s(1116, l.dirs...)
	t.texts(1117, l.names...)
	t.texts(1118, l.dirnames...)
}
