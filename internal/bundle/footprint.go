// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"reflect"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
)

const (
	// mapHeader is the fixed size of a map in bytes. A non-empty map has space for at least mapGroup entries.
	mapHeader = 48
	mapGroup  = 8
)

// footprint estimates the memory of a chart in bytes, without the content of its files. A parsed text can need many
// times the memory of the text.
func footprint(c *chart.Chart) int64 {
	file := int64(reflect.TypeFor[chart.File]().Size() + reflect.TypeFor[*chart.File]().Size())
	total := file*int64(len(c.Templates)+len(c.Files)) +
		referencedBytes(reflect.ValueOf(c.Metadata)) + referencedBytes(reflect.ValueOf(c.Lock)) +
		referencedBytes(reflect.ValueOf(c.Values))
	for _, file := range slices.Concat(c.Templates, c.Files) {
		total += int64(len(file.Name))
	}
	for _, subchart := range c.Dependencies() {
		total += int64(reflect.TypeFor[chart.Chart]().Size()) + footprint(subchart)
	}
	return total
}

// contents returns the size of the files of a chart without subcharts.
func contents(c *chart.Chart) int64 {
	var total int64
	for _, file := range slices.Concat(c.Templates, c.Files) {
		total += int64(len(file.Data))
	}
	return total
}

// referencedBytes estimates the size of all data that a value refers to, in bytes.
func referencedBytes(v reflect.Value) int64 {
	var total int64
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			total = int64(v.Type().Elem().Size()) + referencedBytes(v.Elem())
		}
	case reflect.Interface:
		if v.IsNil() {
			break
		}
		if kind := v.Elem().Kind(); kind != reflect.Map && kind != reflect.Pointer { // others need no box
			total = int64(v.Elem().Type().Size())
		}
		total += referencedBytes(v.Elem())
	case reflect.String:
		total = int64(v.Len())
	case reflect.Slice:
		total = int64(v.Cap()) * int64(v.Type().Elem().Size())
		for i := range v.Len() {
			total += referencedBytes(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			break
		}
		total = mapHeader
		if v.Len() > 0 {
			// A map is half to completely full. A small map has one group.
			entries := max(mapGroup, v.Len()*3/2)
			total += int64(entries) * int64(v.Type().Key().Size()+v.Type().Elem().Size()+1)
		}
		for entry := v.MapRange(); entry.Next(); {
			total += referencedBytes(entry.Key()) + referencedBytes(entry.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			total += referencedBytes(v.Field(i))
		}
	}
	return total
}
