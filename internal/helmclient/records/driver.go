// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// Replace replaces the record that was first read under the key. The error is driver.ErrReleaseExists if any
	// process changed the record after that read.
	Replace(key string, rls *release.Release) error
	// Relabel replaces HelmOp's labels on the record that was first read under the key. It changes nothing else. The
	// error is of the kind helmerr.ErrStale if any process changed the record after that read.
	Relabel(key string, labels map[string]string) error
	// Withdraw deletes the record that was last written under the key. The error is of the kind helmerr.ErrStale if
	// another manager wrote the record after that write.
	Withdraw(key string) error
	// Refresh drops all cached records, so that they are read again.
	Refresh()
}

// RecordingDriver decorates one of Helm's storage drivers. It stores which records were saved, whatever Helm returns.
// It also sets the labels of records. It is safe for concurrent use.
type RecordingDriver struct {
	driver.Driver
	// Labels sets the labels of new records.
	Labels Relabel
	// Shard is the shard of this process, see [model.LabelShard].
	Shard string
	// Deadline is the latest end of the action, see [model.LabelDeadline].
	Deadline time.Time
	// Admit is called before a record is created. An error prevents the creation. Nil if there is no check.
	Admit func(*release.Release) error
	// Created is called after a record was created. An error deletes the record. Nil if there is no check.
	Created func() error
	// HasSurvivors reports whether a failed installation has left objects of its manifest that it has not noted by
	// [RecordingDriver.NoteFound]; nil for other actions.
	HasSurvivors func() bool
	// Rendered has the chart for the new record; nil if the chart that Helm received is the chart for the record.
	Rendered *RenderedRevision
	// Kept is the key of a record that must not be deleted; empty if there is none.
	Kept string
	// Begun means that Helm has begun to uninstall the release. Helm saves the record with each hook, and before it
	// deletes any object.
	Begun bool

	mu sync.Mutex
	// changed means that a record was saved or deleted.
	changed bool
	// saved holds the records that were saved, by revision.
	saved map[int]*release.Release
	// ended holds the status of the revisions that were read as failed or uninstalled.
	ended map[int]release.Status
	// hidden is the revision that is hidden from all readers until Create replaces it; zero if there is none.
	hidden int
	// hiddenKey is the key of the hidden record.
	hiddenKey string
	// held means that updates and deletions are ignored.
	held bool
	// foundObjects means that the installation found objects of the release.
	foundObjects bool
	// marked means that the release was marked as uninstalling before Helm began.
	marked bool
	// queried caches the results of queries until the next write: an upgrade reads the history twice, and each result may
	// have megabytes.
	queried map[string][]*release.Release
}

// NewRecordingDriver decorates a storage driver; labels sets the labels of new records.
func NewRecordingDriver(inner driver.Driver, labels Relabel) *RecordingDriver {
	return &RecordingDriver{
		Driver:  inner,
		Labels:  labels,
		saved:   map[int]*release.Release{},
		ended:   map[int]release.Status{},
		queried: map[string][]*release.Release{},
	}
}

// Create implements driver.Driver. It replaces the hidden record.
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
			return helmerr.New(helmerr.ErrStale, "Helm revision %d was rendered, but Helm revision %d is the next one",
				d.Rendered.Revision, rls.Version)
		}
		// Helm received the rendered chart. Helm continues to use this record, so later updates also contain this chart.
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
			return errors.Join(err, d.withdraw(key))
		}
	}
	d.record(rls)
	return nil
}

// withdraw deletes the record that Create has just created. If this process was stopped meanwhile, another process may
// already continue the action under this record. So no other manager may have written the record since its creation.
func (d *RecordingDriver) withdraw(key string) error {
	if careful, ok := d.Driver.(CarefulDriver); ok {
		return careful.Withdraw(key)
	}
	_, err := d.Driver.Delete(key)
	return err
}

// Replace replaces the record that was read under the key, unless another process has changed the record.
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

// Relabel sets HelmOp's labels on a record that was read. It does not change the content of the record.
func (d *RecordingDriver) Relabel(key string, rls *release.Release) error {
	careful, ok := d.Driver.(CarefulDriver)
	if !ok {
		return fmt.Errorf("the storage driver %s cannot change labels", d.Name())
	}
	defer d.forgetQueries()
	rls.Labels = d.Labels.Apply(rls.Labels, rls.Version)
	model.SetText(rls.Labels, model.LabelShard, d.Shard)
	if err := careful.Relabel(key, rls.Labels); err != nil {
		return err
	}
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

// hides returns the key of the hidden record; empty if there is none.
func (d *RecordingDriver) hides() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hiddenKey
}

// Hold makes the driver ignore all later updates and deletions.
func (d *RecordingDriver) Hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

func (d *RecordingDriver) isHeld() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// Refresh drops all cached records, so that they are read again.
func (d *RecordingDriver) Refresh() {
	if careful, ok := d.Driver.(CarefulDriver); ok {
		careful.Refresh()
	}
	d.forgetQueries()
}

// Update implements driver.Driver. A failed or uninstalled revision keeps its status. Helm marks such a revision as
// superseded when another revision follows. The revision would then look like a valid target of a rollback.
func (d *RecordingDriver) Update(key string, rls *release.Release) error {
	if d.ignoresUpdate(rls) {
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

// sign labels a record of HelmOp with the shard of this process. So the record shows which shard is uninstalling a
// release. sign also labels the record if this engine uninstalls the release, or if objects of a failed installation
// may have worked before.
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
	} else {
		delete(labels, model.LabelNeverWorked)
	}
	if rls.Info != nil && rls.Info.Status == release.StatusFailed &&
		(d.hasFoundObjects() || d.HasSurvivors != nil && d.HasSurvivors()) {
		labels[model.LabelMayHaveWorked] = "true"
	}
	rls.Labels = labels
	d.setDeadline(rls)
}

// setDeadline labels a record with the latest end of the action, if the action on the record is running.
func (d *RecordingDriver) setDeadline(rls *release.Release) {
	delete(rls.Labels, model.LabelDeadline)
	if rls.Info != nil && (rls.Info.Status.IsPending() || IsUninstalling(rls)) {
		model.SetTime(rls.Labels, model.LabelDeadline, d.Deadline)
	}
}

// IsUninstalling reports whether an uninstallation of the release has begun, according to its record.
func IsUninstalling(rls *release.Release) bool {
	return rls.Info != nil && rls.Info.Status == release.StatusUninstalling
}

// NoteFound stores that an installation found objects of the release, see [model.LabelMayHaveWorked].
func (d *RecordingDriver) NoteFound() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.foundObjects = true
}

func (d *RecordingDriver) hasFoundObjects() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.foundObjects
}

// Mark stores whether the release is marked as uninstalling.
func (d *RecordingDriver) Mark(marked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marked = marked
}

// isMarked reports whether an update only repeats the mark that the release is being uninstalled. Such an update sets
// Begun.
func (d *RecordingDriver) isMarked(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.marked && IsUninstalling(rls)
	d.Begun = d.Begun || again
	return again
}

// Delete implements driver.Driver. It also succeeds if the record does not exist: otherwise Helm would not delete the
// records after it. It also succeeds, without a deletion, if the record must stay.
func (d *RecordingDriver) Delete(key string) (rls *release.Release, err error) {
	if key == d.Kept || d.isHeld() {
		return nil, nil
	}
	defer d.forgetQueries()
	defer recoverUnreadable(key, &err)
	rls, err = d.Driver.Delete(key)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return rls, nil
	case err != nil, rls == nil:
		// If there is neither an error nor a record, the store deletes the record later.
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

// Query implements driver.Driver. It removes Helm's own labels, which Helm's driver returns too. An upgrade would copy
// these labels to the next revision, and the labels with times would then be wrong.
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

// withoutHidden removes the hidden record. Helm needs the complete newest record of the others, but the list may have
// only its metadata, see [Store].
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

// noteRead stores the status of a record that was read, and removes Helm's own labels.
func (d *RecordingDriver) noteRead(rls *release.Release) {
	rls.Labels = withoutSystemLabels(rls.Labels)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ended, rls.Version)
	if rls.Info != nil && (rls.Info.Status == release.StatusFailed || rls.Info.Status == release.StatusUninstalled) {
		d.ended[rls.Version] = rls.Info.Status
	}
}

// ignoresUpdate reports whether the driver must not save an update. Helm marks failed and uninstalled revisions as
// superseded. In this case, ignoresUpdate also sets the status in rls back to failed or uninstalled.
func (d *RecordingDriver) ignoresUpdate(rls *release.Release) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ended, ok := d.ended[rls.Version]; ok && rls.Info != nil && rls.Info.Status == release.StatusSuperseded {
		rls.Info.Status = ended
		return true
	}
	return d.held
}

// forgetQueries drops the cached results of queries, which may be outdated after a write.
func (d *RecordingDriver) forgetQueries() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.queried)
}

// recoverUnreadable converts a panic of Helm's driver to an error. Helm's driver panics if it cannot decode a record.
func recoverUnreadable(key string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the release record %q cannot be decoded", key)
	}
}

// record stores a record that was saved.
func (d *RecordingDriver) record(rls *release.Release) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = true
	// This is a copy, because Helm changes the release later.
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

// Restart drops all stored information about saved records, so that they do not count as changes.
func (d *RecordingDriver) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = false
	clear(d.saved)
}

// Newest returns the newest revision that was saved; nil if none was saved.
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

// withoutSystemLabels returns a copy of labels without Helm's own labels.
func withoutSystemLabels(labels map[string]string) map[string]string {
	kept := make(map[string]string, len(labels))
	maps.Copy(kept, labels)
	for _, key := range driver.GetSystemLabels() {
		delete(kept, key)
	}
	return kept
}

// RenderedRevision is a chart that an action rendered, and the number of its revision.
type RenderedRevision struct {
	// Chart is the chart for the record.
	Chart *chart.Chart
	// Revision is the revision that the templates used; zero if the record may have any revision.
	Revision int
}
