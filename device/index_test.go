package device

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"wgd/noise"
)

// indices is a random source that gives these, then fails.
func indices(list ...uint32) io.Reader {
	var b []byte
	for _, i := range list {
		b = binary.LittleEndian.AppendUint32(b, i)
	}
	return bytes.NewReader(b)
}

func mustAdd(t *testing.T, table *indexTable, p *Peer, kp *noise.Keypair, r io.Reader) uint32 {
	t.Helper()
	index, err := table.add(p, kp, r)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestIndexTable(t *testing.T) {
	var table indexTable
	p, kp := new(Peer), new(noise.Keypair)
	if table.lookup(0) != nil || table.attach(0, kp) {
		t.Error("the empty table has an entry")
	}
	table.remove(0)

	index := mustAdd(t, &table, p, nil, rand.Reader)
	if e := table.lookup(index); e == nil || e.index != index || e.peer != p || e.keypair != nil {
		t.Errorf("after add: got %+v", e)
	}
	if table.lookup(index+1) != nil {
		t.Error("another index was found")
	}
	before := table.lookup(index)
	if !table.attach(index, kp) {
		t.Error("attach did not find the handshake")
	}
	if before.keypair != nil {
		t.Error("attach changed an entry that a reader may hold")
	}
	if e := table.lookup(index); e == nil || e.peer != p || e.keypair != kp {
		t.Errorf("after attach: got %+v", e)
	}
	table.remove(index)
	table.remove(index)
	if table.lookup(index) != nil || table.attach(index, kp) {
		t.Error("found after remove")
	}
	if table.slots.Load() != nil {
		t.Error("an empty table keeps memory")
	}
}

func TestIndexTableDrawsAgain(t *testing.T) {
	var table indexTable
	p := new(Peer)
	mustAdd(t, &table, p, nil, indices(7))
	if got := mustAdd(t, &table, p, nil, indices(7, 7, 9)); got != 9 {
		t.Errorf("got index %d, want 9", got)
	}
	if _, err := table.add(p, nil, indices(7)); !errors.Is(err, io.EOF) {
		t.Errorf("got error %v, want that of the source", err)
	}
	same := make([]uint32, 1000)
	if mustAdd(t, &table, p, nil, indices(0)) != 0 {
		t.Error("index 0 was refused")
	}
	if _, err := table.add(p, nil, indices(same...)); err == nil {
		t.Error("a source that repeats itself was followed for ever")
	}
	if table.lookup(7) == nil || table.lookup(9) == nil || table.lookup(0) == nil {
		t.Error("an entry was lost")
	}
}

// Indices that meet in one slot, removed and added in any order, against a map.
func TestIndexTableRandom(t *testing.T) {
	rng := mathrand.New(mathrand.NewPCG(3, 4))
	var table indexTable
	model := map[uint32]*Peer{}
	for step := range 100_000 {
		index := rng.Uint32N(64) * 0x01000001 // many share their low bits
		grow := step/5000%2 == 0              // fill, then drain
		switch p := new(Peer); {
		case model[index] == nil && (grow || rng.IntN(4) == 0):
			mustAdd(t, &table, p, nil, indices(index))
			model[index] = p
		case !grow || rng.IntN(4) == 0:
			table.remove(index)
			delete(model, index)
		}
		probe := rng.Uint32N(64) * 0x01000001
		e := table.lookup(probe)
		if (e == nil) != (model[probe] == nil) || e != nil && e.peer != model[probe] {
			t.Fatalf("step %d: index %#x: got %+v, want peer %p", step, probe, e, model[probe])
		}
		if table.live != len(model) {
			t.Fatalf("step %d: %d live, want %d", step, table.live, len(model))
		}
		if s := table.slots.Load(); s != nil && 4*table.used > 3*len(*s) {
			t.Fatalf("step %d: %d of %d slots used: a search may not end", step, table.used, len(*s))
		}
	}
}

func TestIndexTableGivesRoomBack(t *testing.T) {
	var table indexTable
	p := new(Peer)
	var all []uint32
	for range 10_000 {
		all = append(all, mustAdd(t, &table, p, nil, rand.Reader))
	}
	for _, index := range all[10:] {
		table.remove(index)
	}
	if n := len(*table.slots.Load()); n > 128 {
		t.Errorf("%d slots for 10 entries", n)
	}
	for _, index := range all[:10] {
		if table.lookup(index) == nil {
			t.Errorf("index %#x was lost", index)
		}
	}
}

// A reader finds what is there all the time and never what was removed before
// it began, while the table grows and shrinks under it.
func TestIndexTableReadersAmongWriters(t *testing.T) {
	var table indexTable
	p, kp := new(Peer), new(noise.Keypair)
	stays := mustAdd(t, &table, p, kp, rand.Reader)

	var removed atomic.Uint32
	gone := mustAdd(t, &table, p, nil, rand.Reader)
	table.remove(gone)
	removed.Store(gone)

	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				if e := table.lookup(stays); e == nil || e.keypair != kp {
					t.Errorf("the entry that stays: got %+v", e)
					return
				}
				if index := removed.Load(); table.lookup(index) != nil && removed.Load() == index {
					t.Errorf("index %#x was found after it was removed", index)
					return
				}
			}
		})
	}
	for w := range 2 {
		writers.Go(func() {
			for range 100 {
				var mine []uint32
				for range 50 {
					index, err := table.add(p, nil, rand.Reader)
					if err != nil {
						t.Error(err)
						return
					}
					table.attach(index, kp)
					mine = append(mine, index)
				}
				for _, index := range mine {
					table.remove(index)
					if w == 0 {
						removed.Store(index)
					}
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if table.live != 1 {
		t.Errorf("%d entries left, want 1", table.live)
	}
}

func BenchmarkIndexLookup(b *testing.B) {
	var table indexTable
	var all []uint32
	for range 1000 {
		index, _ := table.add(new(Peer), nil, rand.Reader)
		all = append(all, index)
	}
	for i := 0; b.Loop(); i++ {
		if table.lookup(all[i%len(all)]) == nil {
			b.Fatal("lost")
		}
	}
}
