//go:build simulation && chaos && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
)

// startServer starts a server on the newest store.
func (w *world) startServer() (err error) {
	withClock(serverClock, func() { err = w.bootServer() })
	return err
}

func (w *world) bootServer() error {
	ns, err := server.NewServer(&server.Options{
		ServerName: "n0", DontListen: true, JetStream: true, StoreDir: w.store(w.stores), NoSigs: true, DisableJetStreamBanner: true,
		SyncAlways: w.always, MaxPayload: int32(w.payload), JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1},
	})
	if err != nil {
		return err
	}
	unwell := new(atomic.Bool)
	ns.SetLoggerV2(serverLog{w.log, unwell}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(serverStart) {
		return errors.New("chaos: the simulated server does not start")
	}
	// See natsserver.primeJetStream.
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := natsclient.AwaitJetStream(context.Background(), nc); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.unwell = ns, unwell
	return nil
}

// connectServer opens the server's end of a connection.
func (w *world) connectServer() (net.Conn, error) {
	w.mu.Lock()
	ns := w.server
	w.mu.Unlock()
	if ns == nil {
		return nil, errRefused
	}
	var conn net.Conn
	var err error
	withClock(serverClock, func() { conn, err = ns.InProcessConn() })
	return conn, err
}

// killServer ends the server as SIGKILL does: the next server, after down, has the files of
// this moment; after a loss of power it has what was synced, and more.
func (w *world) killServer(down time.Duration, power bool) error {
	if power {
		return w.replaceStore(down, "power loss", func(_, to string) error { return w.disk.copyAfterLoss(w.rng, to) }, true)
	}
	return w.replaceStore(down, "server kill", copyStore, false)
}

// restartServer kills the server, and changes its files before the next one starts.
func (w *world) restartServer(down time.Duration, what string, change func(dir string) error) error {
	var failed error // the next server starts even then
	err := w.replaceStore(down, "stop for "+what, func(from, to string) error {
		if err := copyStore(from, to); err != nil {
			return err
		}
		failed = change(to)
		return nil
	}, false)
	return errors.Join(err, failed)
}

// replaceStore ends the server, and starts the next one on a copy of its store.
func (w *world) replaceStore(down time.Duration, what string, copy func(from, to string) error, power bool) error {
	w.mu.Lock()
	ns := w.server
	if ns == nil {
		w.mu.Unlock()
		return errRefused
	}
	w.server = nil
	w.stores++
	from, to, cables := w.store(w.stores-1), w.store(w.stores), slices.Clone(w.cables)
	w.mu.Unlock()
	if err := copy(from, to); err != nil {
		return err
	}
	before := w.disk
	w.disk = watchDisk(to)
	if err := w.disk.inherit(before, power); err != nil {
		return err
	}
	before.forget()
	for _, c := range cables {
		c.cut(0)
	}
	w.count(what)
	w.log.Info("FAULT: "+what, "down", down)
	// What the old server does from now on reaches no participant and no later server.
	w.endServer(ns, from)
	time.Sleep(down)
	w.disk.room.awaitSpace()
	return w.startServer()
}

// endServer ends a server and removes files, if any. A server that could not write may
// wait forever.
func (w *world) endServer(ns *server.Server, files string) {
	end := func() { ns.Shutdown(); ns.WaitForShutdown(); os.RemoveAll(files) }
	if w.filled {
		go end()
		return
	}
	w.tasks.Go(end)
}

// copyStore copies the files of a store. Nothing else runs meanwhile: system calls do not
// yield in a simulation.
func copyStore(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

// serverLog passes the warnings and errors of the server to the log.
type serverLog struct {
	log    *slog.Logger
	unwell *atomic.Bool
}

func (l serverLog) Noticef(string, ...any)    {}
func (l serverLog) Debugf(string, ...any)     {}
func (l serverLog) Tracef(string, ...any)     {}
func (l serverLog) Warnf(f string, v ...any)  { l.print(slog.LevelWarn, f, v) }
func (l serverLog) Errorf(f string, v ...any) { l.print(slog.LevelError, f, v) }
func (l serverLog) Fatalf(f string, v ...any) { l.print(slog.LevelError, f, v) }

func (l serverLog) print(level slog.Level, f string, v []any) {
	text := fmt.Sprintf(f, v...)
	l.log.Log(context.Background(), level, "server: "+text)
	if strings.Contains(text, syscall.ENOSPC.Error()) {
		l.unwell.Store(true)
	}
}
