// Decimal text, exactly: shown the way cell_text.py shows it (half to even), and divided. No binary fractions.
const MAX_PLACES = 30;

function parsed(text) {
  const found = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text);
  if (!found || (found[2] || "") + (found[3] || "") === "") return null;
  const fraction = found[3] || "";
  let digits = BigInt(found[2] + fraction);
  let scale = fraction.length - Number(found[4] || 0);
  if (scale < 0) {
    digits *= 10n ** BigInt(-scale);
    scale = 0;
  }
  return { negative: found[1] === "-", digits: digits, scale: scale };
}

function halfToEven(above, below) {
  const whole = above / below;
  const rest = 2n * (above % below);
  return rest > below || (rest === below && whole % 2n === 1n) ? whole + 1n : whole;
}

function atPlaces(number, places) {
  if (number.scale <= places) return number.digits * 10n ** BigInt(places - number.scale);
  return halfToEven(number.digits, 10n ** BigInt(number.scale - places));
}

function withPoint(digits, places) {
  const text = digits.toString().padStart(places + 1, "0");
  const whole = text.slice(0, text.length - places).replace(/\B(?=(\d{3})+$)/g, ",");
  return places ? whole + "." + text.slice(text.length - places) : whole;
}

function shownNumber(number, places) {
  let digits = atPlaces(number, places);
  if (digits === 0n && number.digits !== 0n) {
    const first = number.scale - number.digits.toString().length + 1;
    places = Math.min(first + 1, MAX_PLACES);
    digits = atPlaces(number, places);
  }
  return (number.negative && digits !== 0n ? "-" : "") + withPoint(digits, places);
}

function shown(text, places) {
  if (text === null) return "–";
  const number = parsed(text);
  return number ? shownNumber(number, places) : text;
}

function percent(text) {
  const number = text === null ? null : parsed(text);
  if (!number) return shown(text, 2);
  number.digits *= 100n;
  return shownNumber(number, 2) + "\u00a0%";
}

// left ÷ right to three places; null where a side is unknown or the right one is zero.
function quotient(left, right) {
  const above = left === null ? null : parsed(left);
  const below = right === null ? null : parsed(right);
  if (!above || !below || below.digits === 0n) return null;
  const top = above.digits * 10n ** BigInt(below.scale + 3);
  const bottom = below.digits * 10n ** BigInt(above.scale);
  const digits = halfToEven(top, bottom);
  const sign = above.negative !== below.negative && digits !== 0n ? "-" : "";
  return sign + withPoint(digits, 3);
}
