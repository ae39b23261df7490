/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	kblabels "k8s.io/apimachinery/pkg/labels"
)

// recordingDriver decorates one of Helm's storage drivers: it sees what was really saved, whatever Helm returns, and
// keeps the labels right. It is safe for concurrent use.
type recordingDriver struct {
	driver.Driver
	// labels are for records that are created.
	labels relabel
	// complete returns what is to be saved where Helm works on a part of a record; nil where it does not.
	complete func(*release.Release) *release.Release

	mu      sync.Mutex
	changed bool
	saved   map[int]*release.Release
	// failed holds the revisions that were read as failed.
	failed map[int]bool
	// queried holds the answers to queries until the next write: an upgrade asks for the history twice, and
	// each answer may be megabytes.
	queried map[string][]*release.Release
}

func newRecordingDriver(inner driver.Driver, labels relabel) *recordingDriver {
	return &recordingDriver{
		Driver:  inner,
		labels:  labels,
		saved:   map[int]*release.Release{},
		failed:  map[int]bool{},
		queried: map[string][]*release.Release{},
	}
}

// Create implements driver.Driver.
func (d *recordingDriver) Create(key string, rls *release.Release) error {
	rls.Labels = d.labels.apply(rls.Labels, rls.Version)
	defer d.forgetQueries()
	if err := d.Driver.Create(key, rls); err != nil {
		return err
	}
	d.record(rls)
	return nil
}

// Update implements driver.Driver. A failed revision stays failed: Helm calls it superseded where a later revision comes
// after it, and nothing would tell it from one that worked and can be returned to.
func (d *recordingDriver) Update(key string, rls *release.Release) error {
	if d.staysFailed(rls) {
		rls.Info.Status = release.StatusFailed
		return nil
	}
	if d.complete != nil {
		rls = d.complete(rls)
	}
	defer d.forgetQueries()
	if err := d.Driver.Update(key, rls); err != nil {
		return err
	}
	d.record(rls)
	return nil
}

// Delete implements driver.Driver. A record that is gone already counts as deleted: Helm would leave the ones after
// it behind.
func (d *recordingDriver) Delete(key string) (rls *release.Release, err error) {
	defer d.forgetQueries()
	defer recoverUnreadable(key, &err)
	rls, err = d.Driver.Delete(key)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return rls, nil
	case err != nil:
		return rls, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = true
	if rls != nil {
		delete(d.saved, rls.Version)
	}
	return rls, nil
}

// Get implements driver.Driver.
func (d *recordingDriver) Get(key string) (rls *release.Release, err error) {
	defer recoverUnreadable(key, &err)
	rls, err = d.Driver.Get(key)
	if err == nil {
		d.noteRead(rls)
	}
	return rls, err
}

// Query implements driver.Driver. Helm's driver leaves its own labels on what it returns; an upgrade would carry
// them over to the next revision, where they would hide its true times.
func (d *recordingDriver) Query(labels map[string]string) ([]*release.Release, error) {
	key := kblabels.Set(labels).String()
	d.mu.Lock()
	known, ok := d.queried[key]
	d.mu.Unlock()
	if ok {
		return slices.Clone(known), nil
	}
	list, err := d.Driver.Query(labels)
	if err != nil {
		return nil, err
	}
	for _, rls := range list {
		d.noteRead(rls)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queried[key] = slices.Clone(list)
	return list, nil
}

// noteRead takes note of a record that was read, and takes Helm's own labels off.
func (d *recordingDriver) noteRead(rls *release.Release) {
	rls.Labels = withoutSystemLabels(rls.Labels)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed[rls.Version] = rls.Info != nil && rls.Info.Status == release.StatusFailed
}

// staysFailed reports whether a failed revision is about to be called superseded.
func (d *recordingDriver) staysFailed(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed[rls.Version] && rls.Info != nil && rls.Info.Status == release.StatusSuperseded
}

// forgetQueries drops the answers to queries once a write may have made them wrong.
func (d *recordingDriver) forgetQueries() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.queried)
}

// recoverUnreadable makes an error of the panic with which Helm's driver meets a record that it cannot decode.
func recoverUnreadable(key string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the release record %q cannot be decoded", key)
	}
}

func (d *recordingDriver) record(rls *release.Release) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = true
	// Helm goes on to change the release after it was saved.
	saved := *rls
	if rls.Info != nil {
		info := *rls.Info
		saved.Info = &info
	}
	d.saved[rls.Version] = &saved
}

// storageChanged reports whether anything was saved or deleted.
func (d *recordingDriver) storageChanged() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// restart forgets what was seen so far.
func (d *recordingDriver) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = false
	clear(d.saved)
}

// newest returns the newest revision as it was saved, nil where none was.
func (d *recordingDriver) newest() *release.Release {
	d.mu.Lock()
	defer d.mu.Unlock()
	var newest *release.Release
	for _, rls := range d.saved {
		if newest == nil || rls.Version > newest.Version {
			newest = rls
		}
	}
	return newest
}

func withoutSystemLabels(labels map[string]string) map[string]string {
	kept := make(map[string]string, len(labels))
	maps.Copy(kept, labels)
	for _, key := range driver.GetSystemLabels() {
		delete(kept, key)
	}
	return kept
}
