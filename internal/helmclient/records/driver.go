// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	kblabels "k8s.io/apimachinery/pkg/labels"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// CarefulDriver is a storage driver that detects whether a record changed since it was read.
type CarefulDriver interface {
	driver.Driver
	// Replace saves a record in place of the one that was first read under the key. The error is driver.ErrReleaseExists
	// where that one was changed since, by whomever.
	Replace(key string, rls *release.Release) error
	// Refresh drops what was read, so that it is read again.
	Refresh()
}

// RecordingDriver decorates one of Helm's storage drivers: it notes what was really saved, whatever Helm returns, and
// keeps the labels correct. It is safe for concurrent use.
type RecordingDriver struct {
	driver.Driver
	// Labels are for records that are created.
	Labels Relabel
	// Shard is that of this process, see [model.LabelShard].
	Shard string
	// Deadline is when the action ends at the latest, see [model.LabelDeadline].
	Deadline time.Time
	// Admit is called before a record is created; an error prevents that. Nil if there is no check.
	Admit func(*release.Release) error
	// Created is called after a record was created; an error deletes the record. Nil if there is no check.
	Created func() error
	// Rendered is the chart of the record that is created, nil if Helm was given that chart.
	Rendered *RenderedRevision

	mu      sync.Mutex
	changed bool
	saved   map[int]*release.Release
	// ended holds the status of the revisions that were read as failed or uninstalled.
	ended map[int]release.Status
	// hidden is the revision that is hidden from all readers until the next one replaces it, zero if there is none.
	hidden    int
	hiddenKey string
	// Kept is the key of a record that stays, empty where none must.
	Kept string
	// held means that updates are not saved.
	held bool
	// marked means that the release was marked as uninstalling before Helm began. Begun means that Helm has begun: it
	// saves the record with each hook, and before it deletes anything.
	marked, Begun bool
	// queried holds the answers to queries until the next write: an upgrade asks for the history twice, and
	// each answer may be megabytes.
	queried map[string][]*release.Release
}

// NewRecordingDriver decorates a storage driver. The labels are for records that are created.
func NewRecordingDriver(inner driver.Driver, labels Relabel) *RecordingDriver {
	return &RecordingDriver{
		Driver:  inner,
		Labels:  labels,
		saved:   map[int]*release.Release{},
		ended:   map[int]release.Status{},
		queried: map[string][]*release.Release{},
	}
}

// Create implements driver.Driver. A record that is hidden is replaced.
func (d *RecordingDriver) Create(key string, rls *release.Release) error {
	if d.Admit != nil {
		if err := d.Admit(rls); err != nil {
			return err
		}
	}
	rls.Labels = d.Labels.Apply(rls.Labels, rls.Version)
	d.setDeadline(rls)
	if d.Rendered != nil {
		if d.Rendered.Revision != 0 && d.Rendered.Revision != rls.Version {
			return helmerr.New(helmerr.ErrStale, "revision %d was rendered, but revision %d is the next one",
				d.Rendered.Revision, rls.Version)
		}
		// Helm was given the rendered chart. It goes on with this record, so it writes no other chart from now on.
		rls.Chart = d.Rendered.Chart
	}
	switch d.hides() {
	case "":
	case key:
		return d.Replace(key, rls)
	default:
		return driver.ErrReleaseExists
	}
	defer d.forgetQueries()
	if err := d.Driver.Create(key, rls); err != nil {
		return err
	}
	if d.Created != nil {
		if err := d.Created(); err != nil {
			_, deleteErr := d.Driver.Delete(key)
			return errors.Join(err, deleteErr)
		}
	}
	d.record(rls)
	return nil
}

// Replace saves a record in place of the one that was read under the key, unless that one was changed since.
func (d *RecordingDriver) Replace(key string, rls *release.Release) error {
	defer d.forgetQueries()
	save := d.Driver.Update
	if careful, ok := d.Driver.(CarefulDriver); ok {
		save = careful.Replace
	}
	if err := save(key, rls); err != nil {
		return err
	}
	d.Hide("", 0)
	d.record(rls)
	return nil
}

// Hide hides a record from all readers until Create replaces it.
func (d *RecordingDriver) Hide(key string, revision int) {
	d.forgetQueries()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hiddenKey, d.hidden = key, revision
}

func (d *RecordingDriver) hides() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hiddenKey
}

// Hold keeps updates from being saved from now on.
func (d *RecordingDriver) Hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

// Refresh makes the driver read everything again.
func (d *RecordingDriver) Refresh() {
	if careful, ok := d.Driver.(CarefulDriver); ok {
		careful.Refresh()
	}
	d.forgetQueries()
}

// Update implements driver.Driver. A failed or uninstalled revision keeps its status: Helm marks it as superseded when
// a later one follows, and then it would look like one that worked and can be rolled back to.
func (d *RecordingDriver) Update(key string, rls *release.Release) error {
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

// sign notes on a record of HelmOp the shard that wrote it last: the shard that marks a release as uninstalling is
// working on it. It also notes that this package does the uninstallation.
func (d *RecordingDriver) sign(rls *release.Release) {
	if rls.Labels[model.LabelOwner] == "" {
		return
	}
	labels := maps.Clone(rls.Labels)
	delete(labels, model.LabelShard)
	model.SetText(labels, model.LabelShard, d.Shard)
	delete(labels, model.LabelUninstalling)
	if IsUninstalling(rls) {
		labels[model.LabelUninstalling] = "true"
	}
	rls.Labels = labels
	d.setDeadline(rls)
}

// setDeadline notes on a record when the action on it ends at the latest, as long as it runs.
func (d *RecordingDriver) setDeadline(rls *release.Release) {
	delete(rls.Labels, model.LabelDeadline)
	if rls.Info != nil && (rls.Info.Status.IsPending() || IsUninstalling(rls)) && !d.Deadline.IsZero() {
		rls.Labels[model.LabelDeadline] = strconv.FormatInt(d.Deadline.Unix(), 10)
	}
}

// IsUninstalling reports whether this engine uninstalls the release, according to its record.
func IsUninstalling(rls *release.Release) bool {
	return rls.Info != nil && rls.Info.Status == release.StatusUninstalling
}

// Mark notes whether the release is marked as uninstalling.
func (d *RecordingDriver) Mark(marked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marked = marked
}

// isMarked reports whether Helm is about to mark a release as uninstalling that is marked already.
func (d *RecordingDriver) isMarked(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.marked && IsUninstalling(rls)
	d.Begun = d.Begun || again
	return again
}

// Delete implements driver.Driver. It succeeds if the record does not exist, because Helm would otherwise leave the
// following records behind. It also succeeds if the record must stay.
func (d *RecordingDriver) Delete(key string) (rls *release.Release, err error) {
	if key == d.Kept {
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
func (d *RecordingDriver) Get(key string) (rls *release.Release, err error) {
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

// Query implements driver.Driver. Helm's driver returns its own labels, too; an upgrade would copy them to the next
// revision and hide its true times.
func (d *RecordingDriver) Query(labels map[string]string) ([]*release.Release, error) {
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

// withoutHidden removes the hidden record. Helm relies on the newest of the others, which may have been read in part
// only, see [Store].
func (d *RecordingDriver) withoutHidden(list []*release.Release) ([]*release.Release, error) {
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
		whole, err := d.Get(NameOf(list[newest].Name, list[newest].Version))
		if err != nil {
			return nil, err
		}
		list[newest] = whole
	}
	return list, nil
}

// noteRead takes note of a record that was read, and takes Helm's own labels off.
func (d *RecordingDriver) noteRead(rls *release.Release) {
	rls.Labels = withoutSystemLabels(rls.Labels)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ended, rls.Version)
	if rls.Info != nil && (rls.Info.Status == release.StatusFailed || rls.Info.Status == release.StatusUninstalled) {
		d.ended[rls.Version] = rls.Info.Status
	}
}

// staysAsItIs reports whether an update must not be saved. It restores the status of a revision that Helm marks as
// superseded but that keeps its status.
func (d *RecordingDriver) staysAsItIs(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ended, ok := d.ended[rls.Version]; ok && rls.Info != nil && rls.Info.Status == release.StatusSuperseded {
		rls.Info.Status = ended
		return true
	}
	return d.held
}

// forgetQueries drops the answers to queries once a write may have made them wrong.
func (d *RecordingDriver) forgetQueries() {
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

func (d *RecordingDriver) record(rls *release.Release) {
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

// StorageChanged reports whether anything was saved or deleted.
func (d *RecordingDriver) StorageChanged() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Restart drops what was noted so far.
func (d *RecordingDriver) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = false
	clear(d.saved)
}

// Newest returns the newest revision as it was saved, nil where none was.
func (d *RecordingDriver) Newest() *release.Release {
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

// RenderedRevision is what an action rendered, and the number of its revision.
type RenderedRevision struct {
	// Chart is the chart for the record.
	Chart *chart.Chart
	// Revision is the number that templates saw, zero if the record may have any.
	Revision int
}
