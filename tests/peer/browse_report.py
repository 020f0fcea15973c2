"""Uses a report page in headless Chromium as a reader would and prints what it saw as JSON.

    browse_report.py PAGE [SCREENSHOT.png]

Loads the page from its file, sorts the table of runs by a column both ways, searches it, asks how a number came
about, and prints it to PDF. Anything the browser logs as an error is listed, and so is every request that is
not for the page itself.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

COLUMN = "formal_energy_j"
TABLE = "table-runs"


def browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", "--window-size=1280,1600", f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def requests(driver):
    seen = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            seen.append(message["params"]["request"]["url"])
    return seen


# One call for the whole column: a call a cell takes minutes.
COLUMN_SCRIPT = """
const [table, name, shownOnly] = arguments;
const heads = [...document.querySelectorAll(`#${table} thead th button`)];
const place = heads.findIndex((head) => head.textContent === name);
const rows = [...document.querySelectorAll(`#${table} tbody tr`)];
return rows.filter((row) => !shownOnly || row.offsetParent !== null)
  .map((row) => row.cells[place].dataset.value ?? null);
"""


def column(driver, shown_only=False):
    return driver.execute_script(COLUMN_SCRIPT, TABLE, COLUMN, shown_only)


def press(driver, name):
    xpath = f"//table[@id='{TABLE}']//th/button[text()='{name}']"
    driver.execute_script("arguments[0].click()", driver.find_element(By.XPATH, xpath))


def main():
    page = Path(sys.argv[1]).resolve().as_uri()
    seen = {}
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            driver.get(page)
            seen["title"] = driver.title
            seen["figures"] = len(driver.find_elements(By.CSS_SELECTOR, "figure svg"))
            press(driver, COLUMN)
            seen["ascending"] = column(driver)
            press(driver, COLUMN)
            seen["descending"] = column(driver)
            box = driver.find_element(By.CSS_SELECTOR, f"input[data-table='{TABLE}']")
            run_id = driver.find_element(By.CSS_SELECTOR, f"#{TABLE} tbody td").get_attribute("textContent")
            box.send_keys(run_id)
            seen["searched_for"] = run_id
            seen["found"] = len(column(driver, shown_only=True))
            seen["said"] = driver.find_element(By.CSS_SELECTOR, ".tools output").text
            link = driver.find_element(By.CSS_SELECTOR, f"#{TABLE} td[data-value] a[href*='{COLUMN}']")
            driver.execute_script("arguments[0].click()", link)
            dialog = driver.find_element(By.ID, "explanation")
            seen["explanation_shown"] = dialog.is_displayed()
            seen["explanation"] = dialog.find_element(By.TAG_NAME, "pre").text
            if len(sys.argv) > 2:
                driver.save_screenshot(sys.argv[2])
            driver.execute_script("arguments[0].close()", dialog)
            box.clear()
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            seen["tools_printed"] = driver.find_element(By.CSS_SELECTOR, ".tools").is_displayed()
            pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"landscape": True, "pageRanges": "1-2"})["data"])
            seen["printed"] = pdf.startswith(b"%PDF")
            levels = ("SEVERE", "WARNING")
            seen["errors"] = [e["message"] for e in driver.get_log("browser") if e["level"] in levels]
            own = (page, "data:", "blob:", "chrome:")
            seen["requests"] = [url for url in requests(driver) if not url.startswith(own)]
        finally:
            driver.quit()
    json.dump(seen, sys.stdout, indent=1)


main()
