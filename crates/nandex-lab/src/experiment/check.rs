//! Checks all names of a definition before anything runs.

use super::contender::Contender;
use super::definition::{Definition, Input, Variant};
use super::file::Fault;
use super::input::Places;
use super::locate::path;
use super::{find_chip, list};
use crate::registry;
use crate::{LabError, bundle::Bundle, spatial, tbm, workload};
use nandex_stacks::options::{Options, sharing};
use std::collections::BTreeSet;

type Checked = Result<(), Fault>;

/// Refuses a definition with names that do not exist.
pub(super) fn all(definition: &Definition) -> Checked {
    let at = |keys: &[&str]| {
        let at = path(keys);
        move |error: LabError| Fault { at, error }
    };
    find_chip(definition).map_err(at(&["chip"]))?;
    if definition.key_bytes == 0 {
        let error = LabError::bad_option("key_bytes", "0", "is too few: a key has at least one byte");
        return Err(at(&["key_bytes"])(error));
    }
    contenders(definition)?;
    unique(definition.inputs.iter().map(|input| &input.name), "input")?;
    unique(definition.variants.iter().map(|variant| &variant.name), "variant")?;
    for (place, input) in definition.inputs.iter().enumerate() {
        self::input(definition, input, &place.to_string())?;
    }
    for (place, variant) in definition.variants.iter().enumerate() {
        self::variant(definition, variant, &place.to_string())?;
    }
    replays(definition)?;
    let runs = [definition.inputs.is_empty(), definition.derived.is_empty(), definition.access.is_none()];
    if runs == [true; 3] && definition.replay.is_none() {
        let reason = "is missing: nothing would run; give [[input]] with a name and a workload or a trace";
        return Err(at(&["input"])(LabError::bad_option("input", "", reason)));
    }
    if !definition.inputs.is_empty() && Contender::all(definition).is_empty() {
        let reason = "is missing: nobody takes part; give indexes = [\"mu\", \"bplus\"]";
        return Err(at(&["indexes"])(LabError::bad_option("indexes", "", reason)));
    }
    Ok(())
}

fn contenders(definition: &Definition) -> Checked {
    let is_spatial = |name: &str| definition.access.is_some() && spatial::spatial(name).is_ok();
    for (place, index) in definition.indexes.iter().enumerate().filter(|(_, index)| !is_spatial(index)) {
        let fault = |error| Fault { at: path(&["indexes", &place.to_string()]), error };
        registry::index(index).map_err(|unknown| fault(unknown.into()))?;
    }
    for (place, contender) in definition.contenders.iter().enumerate().filter(|(_, c)| !is_spatial(&c.index))
    {
        let fault = |error| Fault { at: path(&["contender", &place.to_string(), "index"]), error };
        registry::index(&contender.index).map_err(|unknown| fault(unknown.into()))?;
    }
    let all = Contender::all(definition);
    unique(all.iter().map(|contender| &contender.name), "contender")?;
    let baseline = &definition.baseline;
    match baseline.is_empty() || all.iter().any(|contender| contender.name == *baseline) {
        true => Ok(()),
        false => {
            let error = LabError::unknown("contender", baseline, all.iter().map(|c| c.name.as_str()));
            Err(Fault { at: path(&["baseline"]), error })
        }
    }
}

/// Refuses equal names, and names with the separator, because cell names are made of them.
fn unique<'a>(names: impl Iterator<Item = &'a String>, what: &'static str) -> Checked {
    let mut seen = BTreeSet::new();
    for (place, name) in names.enumerate() {
        let why = match (seen.insert(name), name.is_empty() || name.contains('/')) {
            (_, true) => "is no name: give one without '/'",
            (false, _) => "is a name that is taken already",
            _ => continue,
        };
        let at = path(&[what, &place.to_string(), "name"]);
        return Err(Fault { at, error: LabError::bad_option("name", name, why) });
    }
    Ok(())
}

fn input(definition: &Definition, input: &Input, place: &str) -> Checked {
    let fault = |key: &str, error| Fault { at: path(&["input", place, key]), error };
    match (&input.workload, &input.trace) {
        (Some(name), None) => {
            let entry = workload::workload(name).map_err(|error| fault("workload", error))?;
            let mut options = Options::default();
            input.options.iter().for_each(|(name, value)| options.set(name, value));
            let resolved = sharing::resolve(entry.options, &options);
            resolved.map(drop).map_err(|unknown| fault("options", unknown.into()))
        }
        (None, Some(trace)) => {
            let known = list().iter().flat_map(|e| &e.definition.inputs).filter_map(|i| i.trace.as_ref());
            let is_known = known.into_iter().any(|known| known.file == trace.file);
            if is_known || Bundle::named(&trace.file).is_some() {
                return Ok(());
            }
            let found = Places::of(definition, None).find(&trace.file);
            let missing = |reason| LabError::Trace { file: trace.file.clone(), place: None, reason };
            found.map(drop).map_err(|reason| fault("trace", missing(reason)))
        }
        _ => {
            let reason = "needs a workload or a trace, one of them";
            Err(fault("name", LabError::bad_option("input", &input.name, reason)))
        }
    }
}

fn variant(definition: &Definition, variant: &Variant, place: &str) -> Checked {
    let fault = |key: &str, error| Fault { at: path(&["variant", place, key]), error };
    let inputs = || definition.inputs.iter().map(|input| input.name.as_str());
    if let Some(unknown) = variant.inputs.iter().find(|name| !inputs().any(|known| known == name.as_str())) {
        return Err(fault("inputs", LabError::unknown("input", unknown, inputs())));
    }
    let key = |error: &LabError| match error {
        LabError::UnknownName(unknown) if unknown.what == "option" => "options",
        _ => "contenders",
    };
    variant.cast(definition).map(drop).map_err(|error| fault(key(&error), error))
}

fn replays(definition: &Definition) -> Checked {
    for (place, device) in definition.replay.iter().flat_map(|replays| &replays.devices).enumerate() {
        let at = path(&["replay", "devices", &place.to_string(), "ftl"]);
        tbm::find(&device.ftl).map_err(|unknown| Fault { at, error: unknown.into() })?;
    }
    Ok(())
}
