"""Texts of the reports made by hand: names that try to break out of a page or a sheet, method, assumptions."""

SCRIPT_NAME = "<script>document.title='broken'</script>"
SHEET_NAME = '=HYPERLINK("http://example.invalid/?x","click")'
LONG_NAME = "Forschungszentrum für außerordentlich lange Namen von Mandanten-und-deren-Unterabteilungen, " + "x" * 60
METHOD = (
    "Every installed GPU-second is in exactly one state; held beats draining; held idle is the holder's.",
    "Energy is measured joules × the tariff of the hour × PUE, once.",
    "Revenue is net of tax, by service period; what straddles the period is prorated.",
    "Break-even is the full floor ÷ billable GPU-hours. Verdicts hold under every idle policy or say that they do not.",
)
ASSUMPTIONS = (
    "PUE 1.25 at both sites, from the cost file.",
    "17 runs do not say how many GPUs they held: they are listed, and count in no sum.",
    "L40S without counters: 250 W while held, 60 W while not, from the cost file; such energy is marked modelled.",
)
