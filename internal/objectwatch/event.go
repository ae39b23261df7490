// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"bytes"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// binaryPrefix is the prefix of each object in binary form.
var binaryPrefix = []byte{'k', '8', 's', 0}

var errNoEvent = errors.New("a watch event cannot be decoded")

// event is one event of a watch. Only the needed parts are decoded.
type event struct {
	kind watch.EventType
	// head is the metadata of the object. For a binary event it is complete. For a JSON event it has only the fields that
	// identify the followers of the object.
	head metav1.ObjectMeta
	// data is the event as it was received; nil if head is the whole content.
	data []byte
}

// jsonEvent has the fields of a JSON event that identify the followers of the object.
type jsonEvent struct {
	Type   watch.EventType `json:"type"`
	Object struct {
		Metadata struct {
			Name            string            `json:"name"`
			Namespace       string            `json:"namespace"`
			ResourceVersion string            `json:"resourceVersion"`
			Labels          map[string]string `json:"labels"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
	} `json:"object"`
}

// readEvent decodes an event. An event that reports the failure of the watch is an error.
func readEvent(frame []byte) (event, error) {
	if len(frame) == 0 {
		return event{}, errNoEvent
	}
	if frame[0] != '{' {
		return readBinaryEvent(frame)
	}
	var read jsonEvent
	if err := json.Unmarshal(frame, &read); err != nil {
		return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	if read.Type == watch.Error {
		var failed struct {
			Object metav1.Status `json:"object"`
		}
		if err := json.Unmarshal(frame, &failed); err != nil {
			return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
		}
		return event{}, &apierrors.StatusError{ErrStatus: failed.Object}
	}
	m := &read.Object.Metadata
	return event{kind: read.Type, data: frame, head: metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		Annotations: m.Annotations,
	}}, nil
}

// readBinaryEvent reads an event whose object is metadata, or a status.
func readBinaryEvent(frame []byte) (event, error) {
	var outer metav1.WatchEvent
	var object runtime.Unknown
	if err := outer.Unmarshal(frame); err != nil {
		return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	data, ok := bytes.CutPrefix(outer.Object.Raw, binaryPrefix)
	if !ok {
		return event{}, errNoEvent
	}
	if err := object.Unmarshal(data); err != nil {
		return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	if watch.EventType(outer.Type) == watch.Error {
		var status metav1.Status
		if err := status.Unmarshal(object.Raw); err != nil {
			return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
		}
		return event{}, &apierrors.StatusError{ErrStatus: status}
	}
	var metadata metav1.PartialObjectMetadata
	if err := metadata.Unmarshal(object.Raw); err != nil {
		return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	return event{kind: watch.EventType(outer.Type), head: metadata.ObjectMeta}, nil
}

// object returns the object: in full or its metadata, depending on the mode.
func (e *event) object(m mode) (metav1.Object, error) {
	switch {
	case e.data == nil:
		return &metav1.PartialObjectMetadata{ObjectMeta: e.head}, nil
	case m == whole:
		var full struct {
			Object map[string]any `json:"object"`
		}
		if err := json.Unmarshal(e.data, &full); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoEvent, err)
		}
		return &unstructured.Unstructured{Object: full.Object}, nil
	default:
		var partial struct {
			Object metav1.PartialObjectMetadata `json:"object"`
		}
		if err := json.Unmarshal(e.data, &partial); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoEvent, err)
		}
		return &partial.Object, nil
	}
}
