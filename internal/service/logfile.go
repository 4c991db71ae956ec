package service

import (
	"fmt"
	"os"
	"sync"
)

const (
	logBytes = 10 << 20
	logKept  = 4 // older files: NAME.log.1 is the newest
)

// logFile is a log that begins a new file when this one is full, and keeps some older ones.
type logFile struct {
	path string
	most int64
	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, most: most}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	there, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, there.Size()
	return nil
}

// Write appends lines. Where the older file cannot be put away, for example because somebody
// reads it, this one grows on: a log that is too long is better than none.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		l.file.Close()
		l.file = nil
		for n := logKept - 1; n > 0; n-- {
			_ = os.Rename(fmt.Sprint(l.path, ".", n), fmt.Sprint(l.path, ".", n+1)) // it need not be there
		}
		_ = os.Rename(l.path, l.path+".1")
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
