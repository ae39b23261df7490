// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unsafe"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

// inBinary returns an event in binary form.
func inBinary(t *testing.T, kind watch.EventType, obj interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	object, err := (&runtime.Unknown{Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	e := metav1.WatchEvent{Type: string(kind),
		Object: runtime.RawExtension{Raw: append(slices.Clone(binaryPrefix), object...)}}
	data, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// withLength adds the length prefix.
func withLength(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

func TestFrames(t *testing.T) {
	t.Parallel()
	long := `{"type":"ADDED","object":{"x":"` + strings.Repeat("}{\\\"", 3000) + `"}}`
	texts := []string{`{}`, `{"a":{"b":"}"}}`, `{"a":"\\"}`, `{"a":"\"}{"}`, long, `{"last":1}`}
	binaries := []string{"", "{}", strings.Repeat("x", 5000), "\n"}
	for name, tc := range map[string]struct {
		body string
		want []string
		err  error
	}{
		"nothing":                  {err: io.EOF},
		"white space":              {body: " \n\r\t", err: io.EOF},
		"lines":                    {body: strings.Join(texts, "\n") + "\n", want: texts, err: io.EOF},
		"without anything between": {body: strings.Join(texts, ""), want: texts, err: io.EOF},
		"cut off":                  {body: `{}{"a":`, want: []string{"{}"}, err: io.ErrUnexpectedEOF},
		"binary": {body: string(slices.Concat(withLength([]byte(binaries[0])), withLength([]byte(binaries[1])),
			withLength([]byte(binaries[2])),
			withLength([]byte(binaries[3])))), want: binaries, err: io.EOF},
		"binary cut off":           {body: string(withLength([]byte("abc"))[:6]), err: io.ErrUnexpectedEOF},
		"binary cut in the length": {body: "\x00\x00", err: io.ErrUnexpectedEOF},
		"binary too large":         {body: "\x01\x00\x00\x01", err: errFrameTooLarge},
		"text too large":           {body: `{"a":"` + strings.Repeat("x", maxFrameBytes), err: errFrameTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readers := []io.Reader{strings.NewReader(tc.body), iotest.DataErrReader(strings.NewReader(tc.body))}
			if len(tc.body) < maxFrameBytes {
				readers = append(readers, iotest.OneByteReader(strings.NewReader(tc.body)))
			}
			for _, reader := range readers {
				f := frames{body: reader}
				var got []string
				var err error
				for err == nil {
					err = f.next(func(frame []byte) error {
						got = append(got, string(frame))
						return nil
					})
				}
				if !slices.Equal(got, tc.want) || !errors.Is(err, tc.err) {
					t.Errorf("got %d events and %v, want %d and %v", len(got), err, len(tc.want), tc.err)
				}
			}
		})
	}
	f := frames{body: strings.NewReader("{}{}")}
	if err := f.next(func([]byte) error { return errNoEvent }); !errors.Is(err, errNoEvent) {
		t.Errorf("got %v", err)
	}
}

// TestWaitingStreamHasNoChunk checks that a stream that waits for its next event keeps only a small buffer, and that a
// chunk is kept as long as it has a part of the next event.
func TestWaitingStreamHasNoChunk(t *testing.T) {
	t.Parallel()
	event := `{"a":"` + strings.Repeat("x", 3*chunkBytes) + `"}`
	f := frames{body: strings.NewReader(event + `{"b":1}` + "\n" + event)}
	for i, want := range []struct {
		event   string
		arrived bool
	}{{event, true}, {`{"b":1}`, true}, {event, false}} {
		err := f.next(func(got []byte) error {
			if string(got) != want.event {
				t.Errorf("event %d is %q", i, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.arrived(); got != want.arrived || (f.chunk != nil) != want.arrived {
			t.Errorf("after event %d: another has arrived: %t, chunk: %t", i, got, f.chunk != nil)
		}
	}
	if size := unsafe.Sizeof(f); size > 256 {
		t.Errorf("a stream that waits has %d bytes", size)
	}
}

func TestReadEvent(t *testing.T) {
	t.Parallel()
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Namespace: "ns", UID: "u", ResourceVersion: "7", Generation: 3, Labels: map[string]string{"name": "app"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}},
	}}
	expired := metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	inText := func(kind watch.EventType, object any) []byte {
		data, err := json.Marshal(map[string]any{"type": kind, "object": object})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, frame := range map[string][]byte{"text": inText(watch.Added, object),
		"binary": inBinary(t, watch.Added, &object)} {
		e, err := readEvent(frame)
		if err != nil || e.kind != watch.Added || e.head.Name != "n" || e.head.Namespace != "ns" ||
			e.head.ResourceVersion != "7" || e.head.Labels["name"] != "app" {
			t.Errorf("%s: got %+v, %v", name, e, err)
		}
		for _, m := range []mode{metadataOnly, whole} {
			obj, err := e.object(m)
			if err != nil || obj.GetUID() != "u" || obj.GetGeneration() != 3 || len(managedEntries(obj)) != 1 ||
				canonical(managedEntries(obj)[0].fields) != `{"f:data":{}}` {
				t.Errorf("%s in mode %d: got %+v, %v", name, m, obj, err)
			}
		}
	}
	for name, frame := range map[string][]byte{"text": inText(watch.Error, expired),
		"binary": inBinary(t, watch.Error, &expired)} {
		if _, err := readEvent(frame); !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	whole := inBinary(t, watch.Added, &object)
	for _, frame := range [][]byte{
		nil, []byte("{"), []byte(`{"type":3}`), []byte(`{"type":"ERROR","object":[]}`), []byte("garbage"),
		bytes.Replace(whole, binaryPrefix, []byte("none"), 1), whole[:len(whole)-3],
	} {
		if e, err := readEvent(frame); !errors.Is(err, errNoEvent) {
			t.Errorf("%q: got %+v, %v", frame, e, err)
		}
	}
}

// FuzzFrames checks that no body of a watch causes a panic, and that invalid data is not read as an event.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"n"}}}`))
	f.Add(withLength([]byte("x")))
	f.Fuzz(func(_ *testing.T, body []byte) {
		events := frames{body: bytes.NewReader(body)}
		for events.next(func(frame []byte) error {
			e, err := readEvent(frame)
			if err != nil {
				return err
			}
			_, err = e.object(metadataOnly)
			_, wholeErr := e.object(whole)
			return errors.Join(err, wholeErr)
		}) == nil {
			continue
		}
	})
}

// TestFramesShareMemory checks that large events, and events with many values, take their share of the memory before
// they are read, and release it.
func TestFramesShareMemory(t *testing.T) {
	t.Parallel()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a",
		Annotations: map[string]string{"a": strings.Repeat("x", 1<<20)}}}
	crowd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: make([]metav1.OwnerReference,
		100_000)}}
	for name, tc := range map[string]struct {
		body []byte
		err  error
	}{
		"small":           {body: []byte(`{"type":"ADDED"}{}`)},
		"large text":      {body: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)},
		"large binary":    {body: withLength(inBinary(t, watch.Added, object))},
		"of many objects": {body: []byte(`{"a":[` + strings.Repeat("{},", 1<<18)), err: errFrameTooDense},
		"of many owners":  {body: withLength(inBinary(t, watch.Added, crowd)), err: errFrameTooDense},
		"too large":       {body: []byte(`{"a":"` + strings.Repeat("x", 4<<20)), err: errFrameTooDense},
		"announced":       {body: withLength(make([]byte, 4<<20))[:100<<10], err: errFrameTooDense},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := bytebudget.New(32 << 20)
			f := frames{body: bytes.NewReader(tc.body),
				memory: eventMemory{ctx: t.Context(), budget: budget, maxWait: time.Minute,
					owner: bytebudget.Owner{Host: "a"}, abandon: func() {}}}
			taken := int64(0)
			err := f.next(func(frame []byte) error {
				if taken = budget.InUse(); len(frame) > bytebudget.Free && taken < int64(len(frame)) {
					t.Errorf("%d bytes are held for an event of %d", taken, len(frame))
				}
				return nil
			})
			if !errors.Is(err, tc.err) {
				t.Errorf("got %v", err)
			}
			if held := budget.InUse(); held != 0 {
				t.Errorf("%d bytes are still held", held)
			}
		})
	}
}

// TestFramesAreNotHeldUp checks that an event of any size that begins but does not arrive ends the stream.
func TestFramesAreNotHeldUp(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]string{
		"first byte": "{",
		"small":      `{"a":"` + strings.Repeat("x", 63<<10),
		"large":      `{"a":"` + strings.Repeat("x", 1<<20),
		"binary":     string(withLength(make([]byte, 63<<10))[:32<<10]),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := bytebudget.New(32 << 20)
			body, feed := io.Pipe()
			go func() { _, _ = io.WriteString(feed, begun) }() // the rest does not arrive
			// Without a timeout, the test would wait forever.
			stop := time.AfterFunc(time.Minute, func() { _ = feed.Close() })
			defer stop.Stop()
			abandoned := errors.New("abandoned")
			f := frames{body: body, memory: eventMemory{ctx: t.Context(), budget: budget, maxWait: time.Second,
				owner: bytebudget.Owner{Host: "a"}, abandon: func() { _ = feed.CloseWithError(abandoned) }}}
			if err := f.next(func([]byte) error { return nil }); !errors.Is(err, abandoned) {
				t.Errorf("got %v", err)
			}
			if held := budget.InUse(); held != 0 {
				t.Errorf("%d bytes are still held", held)
			}
		})
	}
}

// TestFramesAwaitDecoding checks that an event that has arrived does not end the stream.
func TestFramesAwaitDecoding(t *testing.T) {
	t.Parallel()
	f := frames{body: strings.NewReader(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`), memory: eventMemory{
		ctx: t.Context(), budget: bytebudget.New(32 << 20), maxWait: time.Minute, owner: bytebudget.Owner{Host: "a"},
		abandon: func() {}}}
	if err := f.next(func([]byte) error {
		if f.timeout != nil {
			t.Error("the timeout still runs")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestLargeEventsAreBounded checks that a cluster cannot begin many events that are not small, and that these do not
// affect small events.
func TestLargeEventsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := eventMemory{ctx: t.Context(), large: make(chan struct{}, 2), maxWait: memoryWait, abandon: func() {}}
		begin := func(size int) (end func() error) {
			body, feed := io.Pipe()
			result := make(chan error, 1)
			go func() {
				events := frames{body: body, memory: memory}
				err := events.next(func([]byte) error { return nil })
				result <- errors.Join(err, body.Close())
			}()
			go func() { _, _ = io.WriteString(feed, `{"a":"`+strings.Repeat("x", size)) }()
			synctest.Wait()
			return func() error {
				go func() { _, _ = io.WriteString(feed, `"}`) }()
				return <-result
			}
		}
		first, second, small, third := begin(smallBytes), begin(smallBytes), begin(smallBytes/2), begin(smallBytes)
		if err := small(); err != nil {
			t.Errorf("a small event: %v", err)
		}
		began := time.Now()
		if err := third(); !errors.Is(err, errFrameNoMemory) || time.Since(began) != memoryWait/6 {
			t.Errorf("one large event too many: %v after %s", err, time.Since(began))
		}
		fourth := begin(smallBytes)
		for name, end := range map[string]func() error{"first": first, "second": second} {
			if err := end(); err != nil {
				t.Errorf("the %s large event: %v", name, err)
			}
		}
		if err := fourth(); err != nil {
			t.Errorf("an event that waited: %v", err)
		}
		if held := len(memory.large); held != 0 {
			t.Errorf("%d slots are still held", held)
		}
	})
}

// TestLargeEventsHaveSlotsOfCluster checks that all identities of a cluster share the slots for large events.
func TestLargeEventsHaveSlotsOfCluster(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	first, second, other := &link{id: linkID{"a", "one"}}, &link{id: linkID{"a", "two"}}, &link{id: linkID{"b", "one"}}
	for _, l := range []*link{first, second, other} {
		l.watcher = w
		w.addLinkLocked(l)
	}
	slots := first.memory(t.Context(), nil).large
	if cap(slots) != maxLarge || second.memory(t.Context(), nil).large != slots ||
		other.memory(t.Context(), nil).large == slots {
		t.Errorf("%d slots, or another number of clusters with them", cap(slots))
	}
}
