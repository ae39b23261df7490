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
	"strconv"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	kblabels "k8s.io/apimachinery/pkg/labels"
)

// carefulDriver is a storage driver that can tell whether a record is still the one that was read.
type carefulDriver interface {
	driver.Driver
	// Replace saves a record in place of the one that was first read under the key. The error is driver.ErrReleaseExists
	// where that one was changed since, by whomever.
	Replace(key string, rls *release.Release) error
	// Refresh forgets what was read, so that it is read anew.
	Refresh()
}

// recordingDriver decorates one of Helm's storage drivers: it sees what was really saved, whatever Helm returns, and
// keeps the labels right. It is safe for concurrent use.
type recordingDriver struct {
	driver.Driver
	// labels are for records that are created.
	labels relabel
	// shard is that of this process, see [LabelShard].
	shard string
	// deadline is when the action ends at the latest, see [LabelDeadline].
	deadline time.Time
	// admit is called before a record is created. If it returns an error, the record is not. Nil if there is nothing to check.
	admit func(*release.Release) error
	// created is called after a record was created. If it returns an error, the record is deleted. Nil if there is nothing to check.
	created func() error
	// rendered is the chart of the record that is created, nil if Helm was given that chart.
	rendered *renderedRevision

	mu      sync.Mutex
	changed bool
	saved   map[int]*release.Release
	// ended holds the status of the revisions that were read as failed or uninstalled.
	ended map[int]release.Status
	// hidden is the revision that nobody is to see until the next one takes its place, zero where there is none.
	hidden    int
	hiddenKey string
	// kept is the key of a record that stays, empty where none must.
	kept string
	// held says that updates are not saved.
	held bool
	// marked says that the release was marked as uninstalling before Helm began, and begun that Helm has begun: it saves the record with
	// each hook, and before it deletes anything.
	marked, begun bool
	// queried holds the answers to queries until the next write: an upgrade asks for the history twice, and
	// each answer may be megabytes.
	queried map[string][]*release.Release
}

func newRecordingDriver(inner driver.Driver, labels relabel) *recordingDriver {
	return &recordingDriver{
		Driver:  inner,
		labels:  labels,
		saved:   map[int]*release.Release{},
		ended:   map[int]release.Status{},
		queried: map[string][]*release.Release{},
	}
}

// Create implements driver.Driver. A record that is hidden is replaced.
func (d *recordingDriver) Create(key string, rls *release.Release) error {
	if d.admit != nil {
		if err := d.admit(rls); err != nil {
			return err
		}
	}
	rls.Labels = d.labels.apply(rls.Labels, rls.Version)
	d.setDeadline(rls)
	if d.rendered != nil {
		if d.rendered.revision != 0 && d.rendered.revision != rls.Version {
			return errorOfKind(ErrStale, "revision %d was rendered, and revision %d is next", d.rendered.revision, rls.Version)
		}
		// Helm was given the rendered chart. It goes on with this record, so it writes no other chart from now on.
		rls.Chart = d.rendered.chart
	}
	switch d.hides() {
	case "":
	case key:
		return d.replace(key, rls)
	default:
		return driver.ErrReleaseExists
	}
	defer d.forgetQueries()
	if err := d.Driver.Create(key, rls); err != nil {
		return err
	}
	if d.created != nil {
		if err := d.created(); err != nil {
			_, deleteErr := d.Driver.Delete(key)
			return errors.Join(err, deleteErr)
		}
	}
	d.record(rls)
	return nil
}

// replace saves a record in place of the one that was read under the key, unless that one was changed since.
func (d *recordingDriver) replace(key string, rls *release.Release) error {
	defer d.forgetQueries()
	save := d.Driver.Update
	if careful, ok := d.Driver.(carefulDriver); ok {
		save = careful.Replace
	}
	if err := save(key, rls); err != nil {
		return err
	}
	d.hide("", 0)
	d.record(rls)
	return nil
}

// hide lets nobody see a record until Create replaces it.
func (d *recordingDriver) hide(key string, revision int) {
	d.forgetQueries()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hiddenKey, d.hidden = key, revision
}

func (d *recordingDriver) hides() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hiddenKey
}

// hold keeps updates from being saved from now on.
func (d *recordingDriver) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

// refresh has everything read anew.
func (d *recordingDriver) refresh() {
	if careful, ok := d.Driver.(carefulDriver); ok {
		careful.Refresh()
	}
	d.forgetQueries()
}

// Update implements driver.Driver. A revision that failed or was uninstalled stays so: Helm calls it superseded where a later
// one comes after it, and nothing would tell it from one that worked and can be returned to.
func (d *recordingDriver) Update(key string, rls *release.Release) error {
	if d.staysAsItIs(rls) {
		return nil
	}
	if d.isMarked(rls) {
		return nil
	}
	d.sign(rls)
	defer d.forgetQueries()
	if err := d.Driver.Update(key, rls); err != nil {
		return err
	}
	d.record(rls)
	return nil
}

// sign notes on a record of ours which shard wrote it last: who marks a release as uninstalling is at work on it, whoever made it. And it
// notes that it is this package which uninstalls.
func (d *recordingDriver) sign(rls *release.Release) {
	if rls.Labels[LabelOwner] == "" {
		return
	}
	labels := maps.Clone(rls.Labels)
	delete(labels, LabelShard)
	setText(labels, LabelShard, d.shard)
	delete(labels, LabelUninstalling)
	if isUninstalling(rls) {
		labels[LabelUninstalling] = "true"
	}
	rls.Labels = labels
	d.setDeadline(rls)
}

// setDeadline notes on a record when the action on it ends at the latest, as long as it runs.
func (d *recordingDriver) setDeadline(rls *release.Release) {
	delete(rls.Labels, LabelDeadline)
	if rls.Info != nil && (rls.Info.Status.IsPending() || isUninstalling(rls)) && !d.deadline.IsZero() {
		rls.Labels[LabelDeadline] = strconv.FormatInt(d.deadline.Unix(), 10)
	}
}

func isUninstalling(rls *release.Release) bool {
	return rls.Info != nil && rls.Info.Status == release.StatusUninstalling
}

// mark notes whether the release is marked as uninstalling.
func (d *recordingDriver) mark(marked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marked = marked
}

// isMarked reports whether Helm is about to mark a release as uninstalling that is marked already.
func (d *recordingDriver) isMarked(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.marked && isUninstalling(rls)
	d.begun = d.begun || again
	return again
}

// Delete implements driver.Driver. A record that is gone already counts as deleted: Helm would leave the ones after
// it behind. So does one that stays.
func (d *recordingDriver) Delete(key string) (rls *release.Release, err error) {
	if key == d.kept {
		return nil, nil
	}
	defer d.forgetQueries()
	defer recoverUnreadable(key, &err)
	rls, err = d.Driver.Delete(key)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return rls, nil
	case err != nil, rls == nil:
		// Without an error, it goes later.
		return rls, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = true
	delete(d.saved, rls.Version)
	return rls, nil
}

// Get implements driver.Driver.
func (d *recordingDriver) Get(key string) (rls *release.Release, err error) {
	if key == d.hides() {
		return nil, driver.ErrReleaseNotFound
	}
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
	if list, err = d.withoutHidden(list); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queried[key] = slices.Clone(list)
	return list, nil
}

// withoutHidden takes the record that is hidden from what was read. The newest of the others may have been read in part only,
// see [recordStore], and is what Helm goes by now.
func (d *recordingDriver) withoutHidden(list []*release.Release) ([]*release.Release, error) {
	d.mu.Lock()
	hidden := d.hidden
	d.mu.Unlock()
	newest := -1
	list = slices.DeleteFunc(list, func(rls *release.Release) bool { return hidden > 0 && rls.Version == hidden })
	for i, rls := range list {
		if newest < 0 || rls.Version > list[newest].Version {
			newest = i
		}
	}
	if newest < 0 {
		return nil, driver.ErrReleaseNotFound
	}
	if hidden > 0 {
		whole, err := d.Get(recordName(list[newest].Name, list[newest].Version))
		if err != nil {
			return nil, err
		}
		list[newest] = whole
	}
	return list, nil
}

// noteRead takes note of a record that was read, and takes Helm's own labels off.
func (d *recordingDriver) noteRead(rls *release.Release) {
	rls.Labels = withoutSystemLabels(rls.Labels)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ended, rls.Version)
	if rls.Info != nil && (rls.Info.Status == release.StatusFailed || rls.Info.Status == release.StatusUninstalled) {
		d.ended[rls.Version] = rls.Info.Status
	}
}

// staysAsItIs reports whether an update is not to be saved, and corrects the status of a revision that is about to be called
// superseded and keeps the one it has.
func (d *recordingDriver) staysAsItIs(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ended, ok := d.ended[rls.Version]; ok && rls.Info != nil && rls.Info.Status == release.StatusSuperseded {
		rls.Info.Status = ended
		return true
	}
	return d.held
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
